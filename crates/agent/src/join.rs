//! How the processes of one session find each other: an abstract Unix socket under the session's name.
//!
//! Anybody on the machine may see the name and connect, or take it when it is free, so both sides check that the
//! other one runs as the same user before a descriptor changes hands.

use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_transport::Streams;
use haul_wire::{HEADER_LEN, Header, Kind, SessionId};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg, sockopt,
};

use crate::hub::Hub;

/// How long the other process may take to hand over.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a process that has lost its connections is waited for.
const END: Duration = Duration::from_secs(25);
/// A Hello is shorter.
const HELLO_LEN: usize = 4096;

/// A name for a session that nobody can guess.
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

/// Holds a second name of the session, until this process ends.
pub(crate) fn hold(session: &SessionId) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&named(session, "-alive")?)
}

/// Waits until the process that had the session has ended: it may still be giving files their names, which must not
/// happen behind the back of the one that takes its place.
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

/// Where other processes of the session knock; closed when it is dropped.
pub(crate) struct Door(Arc<UnixListener>);

impl Door {
    /// Makes the session findable and takes connections into `hub` from now on.
    pub(crate) fn open(session: &SessionId, hub: &Arc<Hub>) -> io::Result<Self> {
        let listener = Arc::new(UnixListener::bind_addr(&address(session)?)?);
        let (listening, hub) = (listener.clone(), hub.clone());
        std::thread::Builder::new()
            .name("haul-join".to_owned())
            .spawn(move || accept(&listening, &hub))
            .map(|_| Self(listener))
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // Ends the thread's wait, and with the thread the name.
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }
}

fn accept(listener: &UnixListener, hub: &Arc<Hub>) {
    loop {
        match listener.accept() {
            Ok((socket, _)) => {
                // One that does not hand over is its own loss; the local end opens others.
                let _: io::Result<()> = take_over(socket, hub);
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
            // Out of descriptors, mostly; it passes.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn take_over(socket: UnixStream, hub: &Arc<Hub>) -> io::Result<()> {
    check_user(&socket)?;
    socket.set_read_timeout(Some(PATIENCE))?;
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
    let header = Header::decode(head).map_err(io::Error::other)?;
    header.check_body(body).map_err(io::Error::other)?;
    let Ok([from, to]) = <[OwnedFd; 2]>::try_from(fds) else { return Err(bad()) };
    if header.kind != Kind::Hello {
        return Err(bad());
    }
    hub.add(Streams::plain(from, to)?, Some(Box::new(socket)))
}

/// Hands the connection with its Hello to the process that has the session. What is returned ends when the connection does.
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

/// Waits until the other process lets go of the connection, or ends.
pub(crate) fn wait_for_end(mut hub: UnixStream) {
    let mut byte = [0];
    while matches!(hub.read(&mut byte), Err(error) if error.kind() == io::ErrorKind::Interrupted) {}
}
