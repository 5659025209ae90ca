//! How the processes of one session find each other: through an abstract Unix socket named after the session.
//!
//! Any user of the host can see the name and connect, or bind it while it is free. Both sides therefore check that the
//! other one runs as the same user before they pass a descriptor.

use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_transport::Streams;
use haul_wire::{FrameHeader, FrameKind, HEADER_LEN, SessionId};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg, sockopt,
};

use crate::session::ServerSession;

/// How long the other process may take to hand over its streams.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for the end of a process that lost its connections.
const END: Duration = Duration::from_secs(25);
/// The longest Hello.
const HELLO_LEN: usize = 4096;

/// A new random name of a session.
///
/// # Errors
/// If the system has no randomness.
pub(crate) fn new_session() -> io::Result<SessionId> {
    let mut id = SessionId::default();
    let filled = rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty())?;
    if filled == id.len() { Ok(id) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn address(session: &SessionId) -> io::Result<SocketAddr> {
    named(session, "")
}

fn named(session: &SessionId, what: &str) -> io::Result<SocketAddr> {
    let name: String = session.iter().map(|b| format!("{b:02x}")).collect();
    SocketAddr::from_abstract_name(format!("haul-{name}{what}"))
}

/// Binds a second name of the session for as long as the result is held.
pub(crate) fn hold(session: &SessionId) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&named(session, "-alive")?)
}

/// Waits until the process that held the session has ended. It may still rename files into place, and must not do so
/// while its successor works.
pub(crate) fn wait_gone(session: &SessionId) {
    let until = Instant::now() + END;
    while hold(session).is_err() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn check_user(socket: &UnixStream) -> io::Result<()> {
    if sockopt::socket_peercred(socket)?.uid == rustix::process::getuid() {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user's process answers"))
    }
}

/// The socket at which other processes of the session hand over their streams. Closed on drop.
pub(crate) struct Rendezvous(Arc<UnixListener>);

impl Rendezvous {
    /// Binds the name of the session and takes connections into it from now on.
    pub(crate) fn open(session: &SessionId, serving: &Arc<ServerSession>) -> io::Result<Self> {
        let listener = Arc::new(UnixListener::bind_addr(&address(session)?)?);
        let (listening, serving) = (listener.clone(), serving.clone());
        std::thread::Builder::new()
            .name("haul-join".to_owned())
            .spawn(move || accept(&listening, &serving))
            .map(|_| Self(listener))
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        // This ends the thread, which releases the name.
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }
}

fn accept(listener: &UnixListener, serving: &Arc<ServerSession>) {
    loop {
        match listener.accept() {
            Ok((socket, _)) => {
                // If one process fails to hand over, the local end opens another connection.
                let _: io::Result<()> = take_over(socket, serving);
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
            // Usually there are too many open descriptors; this passes.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn take_over(socket: UnixStream, serving: &Arc<ServerSession>) -> io::Result<()> {
    check_user(&socket)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    let mut frame = [0; HELLO_LEN];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(&socket, &mut [IoSliceMut::new(&mut frame)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut fds: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    let bad = || io::Error::from(io::ErrorKind::InvalidData);
    let frame = &frame[..received.bytes];
    let (head, body) = frame.split_first_chunk::<HEADER_LEN>().ok_or_else(bad)?;
    let header = FrameHeader::decode(head).map_err(io::Error::other)?;
    header.check_body(body).map_err(io::Error::other)?;
    let Ok([from, to]) = <[OwnedFd; 2]>::try_from(fds) else { return Err(bad()) };
    if header.kind != FrameKind::Hello {
        return Err(bad());
    }
    serving.add(Streams::plain(from, to)?, Some(Box::new(socket)))
}

/// Hands the connection and its Hello to the process that holds the session. The socket returned is closed when the
/// connection ends.
pub(crate) fn join(
    session: &SessionId,
    hello: &[u8],
    input: &OwnedFd,
    output: &OwnedFd,
) -> io::Result<UnixStream> {
    let socket = UnixStream::connect_addr(&address(session)?)?;
    check_user(&socket)?;
    let fds = [input.as_fd(), output.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if hello.len() > HELLO_LEN || !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let sent = sendmsg(&socket, &[IoSlice::new(hello)], &mut control, SendFlags::NOSIGNAL)?;
    if sent == hello.len() { Ok(socket) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Waits until the other process closes the connection, or exits.
pub(crate) fn wait_for_end(mut process: UnixStream) {
    let mut byte = [0];
    while matches!(process.read(&mut byte), Err(error) if error.kind() == io::ErrorKind::Interrupted) {}
}
