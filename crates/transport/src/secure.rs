//! How a socket becomes a TLS connection: both ends prove that they hold their keys.

use std::io::{self, IoSlice, Read};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::PollFlags;

use crate::identity::{KeyPair, PublicKey};
use crate::liveness::Liveness;
use crate::nonblocking::{set_nonblocking, wait, write_all};
use crate::records::RECORD;
use crate::stream::{Receive, Streams, Transmit};
use crate::tcp::suit;
use crate::tls::{self, OWN, OutBytes, SecureReader, SecureWriter, TlsNeed, TlsSession};

/// The keys of a connection, which each end has to know beforehand.
#[derive(Clone)]
pub struct ConnectionKeys {
    /// The key of this end.
    pub identity: KeyPair,
    /// The key that the other end has to prove.
    pub peer: PublicKey,
    /// The congestion control to set, if any.
    pub congestion: Option<String>,
}

impl ConnectionKeys {
    /// Makes a TLS connection from a socket that this end connected.
    ///
    /// # Errors
    /// If the other end does not prove its key, or takes longer than `timeout`.
    pub fn connect(&self, socket: TcpStream, timeout: Duration) -> io::Result<Streams> {
        let session = TlsSession::Client(self.identity.client(&self.peer).map_err(tls::failed)?);
        self.handshake(&socket, session, timeout)?.on(socket)
    }

    /// Makes a TLS connection from a socket that this end accepted.
    ///
    /// # Errors
    /// If the other end does not prove its key, or takes longer than `timeout` for it.
    pub fn accept(&self, socket: TcpStream, timeout: Duration) -> io::Result<Streams> {
        self.prove(&socket, timeout)?.on(socket)
    }

    /// The handshake of [`ConnectionKeys::accept`], for a socket that another thread may have to close.
    pub(crate) fn prove(&self, socket: &TcpStream, timeout: Duration) -> io::Result<Proved> {
        let session = TlsSession::Server(self.identity.server(&self.peer).map_err(tls::failed)?);
        self.handshake(socket, session, timeout)
    }

    fn handshake(&self, socket: &TcpStream, session: TlsSession, timeout: Duration) -> io::Result<Proved> {
        let proved = handshake(socket, session, timeout)?;
        suit(socket, self.congestion.as_deref());
        Ok(proved)
    }
}

/// A TLS connection after the handshake.
pub(crate) struct Proved {
    session: TlsSession,
    /// Content that arrived with the end of the handshake, decrypted.
    early: Vec<u8>,
    /// Received bytes that are not decrypted yet.
    rest: Vec<u8>,
}

impl Proved {
    /// The streams of the connection, over its socket.
    pub(crate) fn on(self, socket: TcpStream) -> io::Result<Streams> {
        let own = socket.try_clone()?;
        let (reader, writer) = self.split(socket)?;
        Ok(Streams { from: Receive::secure(reader), to: Transmit::secure(writer), socket: Some(own) })
    }

    /// The two directions of the connection.
    pub(crate) fn split(self, socket: TcpStream) -> io::Result<(SecureReader, SecureWriter)> {
        tls::split(self.session, socket, self.early, &self.rest)
    }
}

pub(crate) fn handshake(
    socket: &TcpStream,
    mut session: TlsSession,
    timeout: Duration,
) -> io::Result<Proved> {
    set_nonblocking(socket)?;
    socket.set_nodelay(true)?;
    let liveness = Liveness::default();
    liveness.end_after(Some(timeout));
    let mut incoming = vec![0; RECORD * 2];
    let mut end = 0;
    // An unauthenticated connection gets only this small buffer, and none for content.
    let mut out = OutBytes::new(OWN);
    // Content that arrives in one packet with the end of the handshake.
    let mut early = Vec::new();
    loop {
        let mut plain = |content: &[u8]| early.extend_from_slice(content);
        let (done, next) = session.step(&mut incoming[..end], &mut out, &mut plain)?;
        incoming.copy_within(done..end, 0);
        end -= done;
        if next == TlsNeed::Again {
            continue;
        }
        if out.len > 0 {
            let mut to = socket;
            write_all(&mut [IoSlice::new(out.filled())], &mut to, &liveness, |socket, _| {
                wait(socket.as_fd(), PollFlags::OUT, &liveness)
            })?;
            out.len = 0;
        }
        match next {
            TlsNeed::Ready => break,
            TlsNeed::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
            TlsNeed::More | TlsNeed::Again => {}
        }
        if end == incoming.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        match (&mut &*socket).read(&mut incoming[end..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => end += n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(socket.as_fd(), PollFlags::IN, &liveness)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    incoming.truncate(end);
    Ok(Proved { session, early, rest: incoming })
}
