//! The remote end of a session: it serves a source or a sink to the haul that a person started.
//!
//! ssh starts one `haul agent` process for each connection. The first process holds the session (`session`): the open
//! sources and sinks, one memory budget, one set of threads. Each later process finds it by the name of the session,
//! hands over its streams (`join`) and waits. The session ends when its last connection has ended; before that, the
//! sinks make all accepted writes durable.
//!
//! From the bottom up: `reply` (the duty to answer), `connection` (the two threads of a connection), `direct` (keys and
//! port for TLS connections), `grants` (other remote ends), `scan` (walks that the local end fetches part by part),
//! `session` (the state), `accept` (TLS connections on their way into the session), `third_party` (the rights of other
//! remote ends, and batches fetched from them), `serve` (the effect of each request).

mod accept;
mod comparing;
mod connection;
mod direct;
mod ends;
mod grants;
mod greeting;
mod join;
mod reply;
mod restrict;
mod said;
mod scan;
mod serve;
mod session;
mod third_party;
mod watch;
mod workers;

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};

use haul_core::{Error, ErrorKind, Result, Side};
use haul_transport::{Receive, Streams};

use ends::LocalEnds;
use greeting::{read_hello, welcome};
use restrict::RestrictedEnds;
use session::ServerSession;

pub use ends::OpenEnds;
pub use restrict::{Access, Restriction};

/// The buffer size of the streams, where the system allows it: larger buffers mean fewer wakeups.
const STREAM_LEN: usize = 1024 * 1024;

/// Runs the remote end over standard input and output until the local end has gone, confined to a directory if one is
/// given.
///
/// # Errors
/// If the greeting fails, or a user started it by hand.
pub fn run(restriction: Option<&Restriction>) -> Result<()> {
    if io::stdin().is_terminal() {
        let why = "haul starts it at the remote end, over ssh; it is not for typing";
        return Err(Error::new(ErrorKind::Usage, Side::Local, "run `haul agent` by hand", why));
    }
    let system = |error: &io::Error| Error::io(Side::Local, "set up the remote end", error);
    let (input, output) = take_streams().map_err(|error| system(&error))?;
    match restriction {
        None => serve(input, output, Box::new(LocalEnds::default())),
        Some(restriction) => {
            restrict::check_command()?;
            serve(input, output, Box::new(RestrictedEnds::open(restriction)?))
        }
    }
}

/// Serves one connection until it ends, in a new session or in one that another process holds.
///
/// # Errors
/// If the greeting failed.
pub fn serve(input: OwnedFd, output: OwnedFd, ends: Box<dyn OpenEnds>) -> Result<()> {
    let system = |error: &io::Error| Error::io(Side::Local, "set up the remote end", error);
    let fd = input.try_clone().and_then(Receive::exact).map_err(|error| system(&error))?;
    let mut greeting = read_hello(fd)?.0;
    let hello = match &greeting.hello {
        Ok(hello) => hello.clone(),
        Err(error) => {
            // The Welcome holds the version and release of this end; the local end reports them.
            let _ = welcome(output, Err("it speaks another version".to_owned()));
            return Err(error.clone());
        }
    };
    if let Some(session) = hello.session {
        match join::join(&session, &greeting.frame, &input, &output) {
            Ok(process) => {
                drop((input, output));
                join::wait_for_end(process);
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
    let serving = ServerSession::new(session, &hello, ends, serve::serve);
    // A process that cannot be found by the name serves one connection.
    let rendezvous = join::Rendezvous::open(&session, &serving).ok();
    if let Some(offer) = hello.direct.as_ref().filter(|_| !serving.ends.is_restricted()) {
        accept::allow_direct(&serving, offer);
    }
    let streams = Streams::plain(input, output).map_err(|error| system(&error))?;
    serving.add(streams, None).map_err(|error| system(&error))?;
    serving.wait();
    drop(rendezvous);
    serving.close();
    Ok(())
}

/// Moves standard input and output to descriptors of their own, so that nothing but frames is written to them and the
/// end of the connection closes them.
fn take_streams() -> io::Result<(OwnedFd, OwnedFd)> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    // A root directory with nothing but haul lacks it. There a file in memory does, as nothing is written to it.
    let null = std::fs::File::options().read(true).write(true).open("/dev/null").map(OwnedFd::from).or_else(
        |_| rustix::fs::memfd_create("null", rustix::fs::MemfdFlags::CLOEXEC).map_err(io::Error::from),
    )?;
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

#[cfg(test)]
mod tests;
