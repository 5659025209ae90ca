//! The remote end.
//!
//! Each connection of a session is an `haul agent` process that ssh starts. The first of them becomes the *hub*: it holds
//! the sources and sinks and does all the work, within one budget of memory. Each later one finds the hub by the
//! session's name, hands over its streams (`join`) and waits. The hub ends when its last connection is gone, whichever
//! that is; what it has taken is made durable first.
//!
//! Read [`hub`] (the session), `connection` (its threads), `direct` (connections that do not go through ssh), `pairs` (other remote ends), `serve` (what each request does) and `scan` (walks that are
//! pulled from afar).

mod connection;
mod direct;
pub mod hub;
mod join;
mod pairs;
mod restrict;
mod scan;
mod serve;
mod watch;
mod workers;

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use haul_core::probe::{ProbeResult, ProbeTask};
use haul_core::{BufferPool, Error, ErrorKind, Ops, Place, Result, Side, Sink, SinkOptions, Source};
use haul_transport::{FrameReader, FrameWriter, LinkError, Liveness, Receive, Streams};
use haul_wire::{Hello, Kind, VERSION, Welcome, decode_body, encode, peek_version};

use hub::{Ends, Hub};
use restrict::RestrictedEnds;
pub use restrict::{Access, Restriction};

/// How long the local end may take to greet; it does so at once.
const GREETING: Duration = Duration::from_secs(60);
/// What the streams are made to hold where the system lets us: fewer wakeups.
const STREAM_LEN: usize = 1024 * 1024;

/// Runs the remote end over standard input and output until the local end is gone, confined to a folder if one is given.
///
/// # Errors
/// If the greeting failed; a person who started it by hand should be told what it is for.
pub fn run(restriction: Option<&Restriction>) -> Result<()> {
    if io::stdin().is_terminal() {
        let why = "it is what haul starts at the far end, over ssh; there is nothing to type here";
        return Err(Error::new(ErrorKind::Usage, Side::Local, "run `haul agent` by hand", why));
    }
    let system = |error: &io::Error| Error::io(Side::Local, "set up the far end", error);
    let (input, output) = take_streams().map_err(|error| system(&error))?;
    match restriction {
        None => serve(input, output, Box::new(LocalEnds::default())),
        Some(restriction) => {
            restrict::check_command()?;
            serve(input, output, Box::new(RestrictedEnds::open(restriction)?))
        }
    }
}

/// Serves one connection, in a session of its own or in one that another process has, until that ends.
///
/// # Errors
/// If the greeting failed.
pub fn serve(input: OwnedFd, output: OwnedFd, ends: Box<dyn Ends>) -> Result<()> {
    let system = |error: &io::Error| Error::io(Side::Local, "set up the far end", error);
    let fd = input.try_clone().and_then(Receive::exact).map_err(|error| system(&error))?;
    let mut greeting = read_hello(fd)?.0;
    let hello = match &greeting.hello {
        Ok(hello) => hello.clone(),
        Err(error) => {
            // Our own version and release are in it; the local end makes the sentence.
            let _ = welcome(output, Err("it speaks another version".to_owned()));
            return Err(error.clone());
        }
    };
    if let Some(session) = hello.session {
        match join::join(&session, &greeting.frame, &input, &output) {
            Ok(hub) => {
                drop((input, output));
                join::wait_for_end(hub);
                return Ok(());
            }
            Err(error) if !hello.fresh => {
                let why = format!("the session is not on this machine, or has ended ({error})");
                return welcome(output, Err(why)).map_err(|error| system(&error));
            }
            Err(_) => {
                greeting.frame.clear();
                join::wait_gone(&session);
            }
        }
    }
    let session = join::new_session().map_err(|error| system(&error))?;
    let _alive = join::hold(&session);
    let hub = Hub::new(session, &hello, ends);
    // Without a name to be found under it serves one connection.
    let door = join::Door::open(&session, &hub).ok();
    if let Some(offer) = hello.direct.as_ref().filter(|_| !hub.ends.is_restricted()) {
        hub.allow_direct(offer);
    }
    let streams = Streams::plain(input, output).map_err(|error| system(&error))?;
    hub.add(streams, None).map_err(|error| system(&error))?;
    hub.wait();
    drop(door);
    hub.close();
    Ok(())
}

/// Takes standard input and output away from everything else in this process, so that a connection's end closes them and
/// nothing but frames can get into them.
fn take_streams() -> io::Result<(OwnedFd, OwnedFd)> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    for fd in [&input, &output] {
        // sshd gives a socket or a pipe.
        if rustix::pipe::fcntl_setpipe_size(fd, STREAM_LEN).is_err() {
            let _ = rustix::net::sockopt::set_socket_send_buffer_size(fd, STREAM_LEN);
        }
    }
    Ok((input, output))
}

/// What a local end said first.
struct Greeting {
    /// The frame as it came, for another process.
    frame: Vec<u8>,
    hello: Result<Hello>,
}

fn read_hello(input: Receive) -> Result<(Greeting, Receive)> {
    let liveness = Arc::new(Liveness::default());
    liveness.end_after(Some(GREETING));
    let mut reader = FrameReader::new(input, liveness);
    let (header, body) = reader.head().map_err(|error| match error {
        LinkError::Closed => {
            let why = "standard input ended before haul at the near end said anything; haul starts `haul agent` \
                       by itself, over ssh";
            Error::new(ErrorKind::Unreachable, Side::Wire, "talk to the near end", why)
        }
        error => error.into_error(),
    })?;
    let bad = |why: String| Error::new(ErrorKind::Protocol, Side::Wire, "talk to the near end", why);
    let Some((version, release)) = peek_version(&body).filter(|_| header.kind == Kind::Hello) else {
        return Err(bad("it did not greet".to_owned()));
    };
    let hello = if version == VERSION {
        decode_body(&body).map_err(Error::from)
    } else {
        let own = env!("CARGO_PKG_VERSION");
        Err(bad(format!("haul {release} there speaks protocol {version}, haul {own} here speaks {VERSION}")))
    };
    Ok((Greeting { frame: [&header.encode()[..], &body].concat(), hello }, reader.into_inner()))
}

fn welcome(output: OwnedFd, session: std::result::Result<haul_wire::SessionId, String>) -> io::Result<()> {
    let frame = encode(Kind::Welcome, 0, &Welcome::new(session), 0).map_err(io::Error::other)?;
    let liveness = Arc::new(Liveness::default());
    liveness.end_after(Some(GREETING));
    let to = Streams::plain(output.try_clone()?, output)?.to;
    FrameWriter::new(to, liveness).write(&frame, &[])
}

/// The file system of this machine, with a limit for each side.
#[derive(Default)]
struct LocalEnds {
    source: Arc<Ops>,
    sink: Arc<Ops>,
}

impl Ends for LocalEnds {
    fn source(&self, place: &Place, pool: &BufferPool) -> Result<Arc<dyn Source>> {
        haul_local::open_source(place, true, pool, &self.source)
    }

    fn sink(&self, place: &Place, options: &SinkOptions, pool: &BufferPool) -> Result<Arc<dyn Sink>> {
        haul_local::open_sink(place, true, options, pool, &self.sink)
    }

    fn limit(&self, iops: Option<u64>) {
        self.source.limit(iops);
        self.sink.limit(iops);
    }

    fn probe(&self, task: &ProbeTask) -> Result<ProbeResult> {
        haul_probe::run(task, &|place| haul_local::resolve(place, true))
    }
}

#[cfg(test)]
mod tests;
