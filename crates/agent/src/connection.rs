//! One connection at the remote end: a thread that reads requests, a thread that writes responses.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use haul_codec::Sending;
use haul_core::{Buffer, Error, ErrorKind, Side};
use haul_transport::{FrameReader, FrameWriter, LinkError, Liveness, Streams};
use haul_wire::{FrameError, Kind, Request, Response, Welcome, check, decode_body, encode, encode_ping};

use crate::hub::Hub;
use crate::pairs::Guest;
use crate::serve;

/// A Ping is sent after this long without a frame.
const QUIET: Duration = Duration::from_secs(1);
/// Small frames that wait are written together up to this many bytes.
const TOGETHER: usize = 64 * 1024;

/// Content of a response, until it is written.
#[derive(Default)]
pub(crate) struct Outgoing {
    pub(crate) content: Buffer,
    /// Tells by its end when that was.
    pub(crate) sending: Option<Sending>,
}

/// Something for the thread that writes.
enum Out {
    Frame(Vec<u8>, Option<Outgoing>),
    End,
}

/// Where responses go. Handing one over never waits for the network: it is called from threads of sinks.
pub(crate) struct Connection {
    number: u64,
    /// Who speaks on it, if it is not the local end.
    pub(crate) guest: Option<Arc<Guest>>,
    pub(crate) liveness: Arc<Liveness>,
    out: Sender<Out>,
}

/// The streams of a connection before its threads have them.
pub(crate) struct Threads {
    reader: FrameReader,
    writer: FrameWriter,
    responses: Receiver<Out>,
}

pub(crate) fn set_up(
    number: u64,
    streams: Streams,
    guest: Option<Arc<Guest>>,
    welcome: &Welcome,
) -> io::Result<(Arc<Connection>, Threads)> {
    let liveness = Arc::new(Liveness::default());
    let (out, responses) = unbounded();
    let frame = encode(Kind::Welcome, 0, welcome, 0).map_err(io::Error::other)?;
    let _ = out.send(Out::Frame(frame, None));
    let reader = FrameReader::new(streams.from, liveness.clone());
    let writer = FrameWriter::new(streams.to, liveness.clone());
    Ok((Arc::new(Connection { number, guest, liveness, out }), Threads { reader, writer, responses }))
}

impl Connection {
    /// Ends both threads.
    pub(crate) fn end(&self) {
        self.liveness.end();
        let _ = self.out.send(Out::End);
    }
}

impl Threads {
    pub(crate) fn start(
        self,
        hub: &Arc<Hub>,
        connection: Arc<Connection>,
        keep: Option<Box<dyn Send + Sync>>,
    ) -> io::Result<()> {
        let Self { mut reader, mut writer, responses } = self;
        let number = connection.number;
        let ending = Ending(hub.clone(), number);
        thread::Builder::new().name(format!("haul-out-{number}")).spawn(move || {
            // The process that handed the connection over waits for `keep` to go.
            let _keep = keep;
            let _ending = ending;
            write_frames(&mut writer, &responses);
        })?;
        let ending = Ending(hub.clone(), number);
        let hub = hub.clone();
        thread::Builder::new().name(format!("haul-in-{number}")).spawn(move || {
            let _ending = ending;
            // Whatever it was, the local end sees the end of the connection and asks elsewhere.
            let _: Result<(), LinkError> = read_frames(&hub, &connection, &mut reader);
        })?;
        Ok(())
    }
}

/// Takes the connection off the hub's list, also when a thread panicked.
struct Ending(Arc<Hub>, u64);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.ended(self.1);
    }
}

fn read_frames(
    hub: &Arc<Hub>,
    connection: &Arc<Connection>,
    reader: &mut FrameReader,
) -> Result<(), LinkError> {
    loop {
        let (header, body) = reader.head()?;
        match header.kind {
            Kind::Ping => continue,
            Kind::Request => {}
            Kind::Hello | Kind::Welcome | Kind::Response => return Err(FrameError::Kind.into()),
        }
        let request: Request = decode_body(&body)?;
        drop(body);
        let payload_len = header.payload_len as usize;
        check::request(&request, payload_len)?;
        if let Some(guest) = &connection.guest {
            guest.check(&request)?;
        }
        let mut content = Buffer::default();
        if payload_len > 0 {
            // Waits while the sinks hold all memory: then the connection is not read and the local end has to wait too.
            content = hub.pool.take();
            reader.payload(&header, &mut content)?;
        }
        let reply = Reply { connection: Some(connection.clone()), id: header.id };
        match &connection.guest {
            Some(guest) if matches!(request, Request::Connect { .. }) => guest.reconnect(hub, reply),
            _ => serve::serve(hub, reply, request, content),
        }
    }
}

fn write_frames(writer: &mut FrameWriter, responses: &Receiver<Out>) {
    let mut heads = Vec::new();
    loop {
        let mut next = match responses.recv_timeout(QUIET) {
            Ok(out) => Some(out),
            Err(RecvTimeoutError::Timeout) => Some(Out::Frame(encode_ping().to_vec(), None)),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        heads.clear();
        let mut content = None;
        while let Some(out) = next {
            let Out::Frame(frame, payload) = out else { return };
            heads.extend_from_slice(&frame);
            content = payload;
            if content.is_some() || heads.len() >= TOGETHER {
                break;
            }
            next = responses.try_recv().ok();
        }
        let bytes = content.as_ref().map_or(&[][..], |outgoing| outgoing.content.bytes());
        if writer.write(&heads, bytes).is_err() {
            return;
        }
        drop(content.and_then(|outgoing| outgoing.sending));
    }
}

/// The duty to answer one request. If it is dropped without an answer, that is answered.
pub(crate) struct Reply {
    /// `None` once it was answered.
    connection: Option<Arc<Connection>>,
    id: u64,
}

impl Reply {
    /// The request that is answered.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Whether nobody will get the answer.
    pub(crate) fn is_of_no_use(&self) -> bool {
        self.connection.as_ref().is_none_or(|connection| connection.liveness.is_ended())
    }

    /// Answers.
    pub(crate) fn send(self, response: &Response) {
        self.send_with(response, Outgoing::default());
    }

    /// Answers with content.
    pub(crate) fn send_with(self, response: &Response, content: Outgoing) {
        let len = content.content.bytes().len();
        let (frame, content) = match encode(Kind::Response, self.id, response, len) {
            Ok(frame) => (frame, (len > 0).then_some(content)),
            Err(_) => match encode(Kind::Response, self.id, &Response::TooLarge, 0) {
                Ok(frame) => (frame, None),
                Err(_) => return,
            },
        };
        self.send_out(frame, content);
    }

    /// Answers with a frame that was made before.
    pub(crate) fn send_frame(self, frame: &[u8]) {
        let mut frame = frame.to_vec();
        if haul_wire::set_id(&mut frame, self.id).is_ok() {
            self.send_out(frame, None);
        }
    }

    fn send_out(mut self, frame: Vec<u8>, content: Option<Outgoing>) {
        if let Some(connection) = self.connection.take()
            && !connection.liveness.is_ended()
        {
            // If the connection has died meanwhile nobody waits for it there.
            let _ = connection.out.send(Out::Frame(frame, content));
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            let error = Error::new(ErrorKind::Io, Side::Local, "carry out a request", "the far haul failed");
            let response = Response::Failed(error);
            if let Ok(frame) = encode(Kind::Response, self.id, &response, 0) {
                let _ = connection.out.send(Out::Frame(frame, None));
            }
        }
    }
}
