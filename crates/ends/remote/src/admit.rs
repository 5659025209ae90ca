//! Opens a connection and adds it to the session.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use haul_core::{Error, ErrorKind, Side};
use haul_transport::{FrameReader, FrameWriter, LinkError, Liveness};
use haul_wire::{FrameKind, Hello, Request, Response, VERSION, check, decode_body, encode};

use super::connection::Connection;
use super::direct::with_addresses;
use super::greeting::{Greeted, greet};
use super::reader::{self, COLLECT};
use super::session::Session;
use haul_ssh::dial::{AfterRefusal, Dial, DialPurpose, DialRefused, Helper};

/// How long a process that has just ended may still hold a sink at the remote end.
const BUSY_TIMEOUT: Duration = Duration::from_secs(15);

/// The Hello of this process.
pub(super) fn hello(max_memory: u64, connections: u32, timeout: u32) -> Hello {
    Hello {
        version: VERSION,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        session: None,
        fresh: true,
        max_memory,
        iops: None,
        connections,
        timeout,
        direct: None,
    }
}

/// Opens one more connection through ssh.
pub(super) fn open(session: &Arc<Session>, way: DialPurpose, hello: &Hello) -> Result<(), DialRefused> {
    let link = session.dialer.dial(way)?;
    let asks = way == DialPurpose::First && session.dialer.asks_a_person();
    let hello =
        &if way == DialPurpose::Further { hello.clone() } else { with_addresses(hello, &*session.dialer) };
    let mut greeted = greet(link, hello, session.timeout, asks, &session.dialer.name())?;
    let accepted = accept(session, &mut greeted, hello);
    let Greeted { reader, writer, liveness, helper, .. } = greeted;
    if accepted.is_ok()
        && let Some(helper) = &helper
    {
        helper.settled();
    }
    let added = accepted.and_then(|()| enlist(session, reader, writer, liveness, helper.clone(), false));
    if added.is_err()
        && let Some(helper) = &helper
    {
        helper.kill();
        helper.collect(COLLECT);
    }
    added
}

/// Opens one more direct connection. TLS has proved the remote end, so this does not wait for its Welcome, which would
/// cost another round trip before the first content.
pub(super) fn open_direct(
    session: &Arc<Session>,
    dialer: &dyn Dial,
    way: DialPurpose,
    hello: &Hello,
) -> Result<(), DialRefused> {
    let link = dialer.dial(way)?;
    let liveness = Arc::new(Liveness::default());
    let reader = FrameReader::new(link.streams.from, liveness.clone());
    let mut writer = FrameWriter::new(link.streams.to, liveness.clone());
    let refused = |trouble, error: Error| DialRefused { trouble, error: error.on(dialer.name()) };
    let frame =
        encode(FrameKind::Hello, 0, hello, 0).map_err(|error| refused(AfterRefusal::Fatal, error.into()))?;
    writer
        .write(&frame, &[])
        .map_err(|error| refused(AfterRefusal::Later, Error::io(Side::Wire, "connect to", &error)))?;
    enlist(session, reader, writer, liveness, link.helper, true)
}

/// Takes the session from the Welcome. If the remote process is a new one, opens the roots again.
fn accept(session: &Session, greeted: &mut Greeted, hello: &Hello) -> Result<(), DialRefused> {
    let id = match &greeted.welcome.session {
        Ok(id) => *id,
        Err(why) => {
            let error = Error::new(ErrorKind::Unreachable, Side::Wire, "join the session at", why)
                .on(session.dialer.name());
            let other = session.is_elsewhere(hello.session);
            return Err(DialRefused {
                trouble: if other { AfterRefusal::Fatal } else { AfterRefusal::Later },
                error,
            });
        }
    };
    if hello.session.is_some_and(|known| known != id) {
        reopen(session, greeted)?;
    }
    session.welcomed(id, greeted.welcome.direct.take());
    Ok(())
}

/// Adds a connection to the session and starts its reader.
fn enlist(
    session: &Arc<Session>,
    mut reader: FrameReader,
    mut writer: FrameWriter,
    liveness: Arc<Liveness>,
    helper: Option<Arc<dyn Helper>>,
    direct: bool,
) -> Result<(), DialRefused> {
    reader.limit(session.pace.inbound.clone());
    writer.limit(session.pace.outbound.clone());
    let closed =
        || DialRefused { trouble: AfterRefusal::Fatal, error: session.unreachable("the run has ended") };
    let writer = Box::new(writer);
    let connection =
        session.add(|number| Connection::new(number, direct, writer, liveness, helper)).ok_or_else(closed)?;
    let reading = session.clone();
    let number = connection.number;
    let spawned = thread::Builder::new()
        .name(format!("haul-connection-{number}"))
        .spawn(move || reader::read_connection(&reading, &connection, Box::new(reader)));
    spawned.map(drop).map_err(|error| {
        session.reader_ended();
        session.lose(number, Connection::lost(&error.to_string()));
        DialRefused { trouble: AfterRefusal::Later, error: Error::io(Side::Local, "start a thread", &error) }
    })
}

/// Opens in a new remote process the roots that the old one had open.
fn reopen(session: &Session, greeted: &mut Greeted) -> Result<(), DialRefused> {
    let roots = session.roots();
    let give_up = Instant::now() + BUSY_TIMEOUT;
    for request in roots {
        loop {
            let response = ask(greeted, &request)
                .map_err(|error| DialRefused { trouble: AfterRefusal::Later, error: error.into_error() })?;
            match response {
                Response::Done => break,
                Response::Failed(error) if error.kind() == ErrorKind::Busy && Instant::now() < give_up => {
                    thread::sleep(Duration::from_millis(500));
                }
                Response::Failed(error) => return Err(DialRefused { trouble: AfterRefusal::Fatal, error }),
                _ => {
                    let error = haul_wire::FrameError::Rule("another answer than was asked for").into();
                    return Err(DialRefused { trouble: AfterRefusal::Fatal, error });
                }
            }
        }
    }
    Ok(())
}

/// Makes one request on a connection that is not part of the session yet.
fn ask(greeted: &mut Greeted, request: &Request) -> Result<Response, LinkError> {
    greeted.writer.write(&encode(FrameKind::Request, 0, request, 0)?, &[])?;
    loop {
        let (header, body) = greeted.reader.head()?;
        if header.kind == FrameKind::Response && header.payload_len == 0 {
            let response = decode_body(&body)?;
            check::response(&response, None, 0)?;
            return Ok(response);
        }
        if header.kind != FrameKind::Ping {
            return Err(haul_wire::FrameError::Kind.into());
        }
    }
}
