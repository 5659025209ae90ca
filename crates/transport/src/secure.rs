//! TLS 1.3 on a socket, read and written by two threads at once.
//!
//! rustls does the cryptography, through its unbuffered interface: records are encrypted into the buffer that is
//! written and decrypted in the buffer that was read. Its state is locked for some hundred kilobytes at a time, while
//! they are in the processor's hands, and never while the network is waited for.

use haul_core::sync::{Mutex, MutexGuard};
use std::io::{self, IoSlice, Read};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::PollFlags;
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};

use crate::identity::{Identity, PublicKey};
use crate::liveness::Liveness;
use crate::stream::{Receive, Streams, Transmit, set_nonblocking, wait, write_all};
use crate::tcp::suit;

/// Bytes that are encrypted, or decrypted, at a time; also what one system call moves.
const CHUNK: usize = 256 * 1024;
/// What a record of at most 16 KiB adds: a header of 5 bytes, the content's type, a tag of 16 (RFC 8446, 5.2).
const RECORD_OVERHEAD: usize = 22;
const RECORD: usize = 16 * 1024;
/// Messages of rustls's own: those of the handshake, key updates, alerts.
const OWN: usize = 4 * 1024;
/// Room for a chunk's records, and what goes before them.
const OUT: usize = CHUNK + (CHUNK / RECORD + 2) * RECORD_OVERHEAD + 2 * OWN;

/// What a connection can go on with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The same call again.
    Again,
    /// More bytes from the other end.
    More,
    /// Content may be written; for more content there have to be more bytes.
    Ready,
    /// The other end has said that it will say no more.
    Closed,
}

/// Bytes on their way to the socket.
struct Out {
    bytes: Vec<u8>,
    len: usize,
}

impl Out {
    fn new(len: usize) -> Self {
        Self { bytes: vec![0; len], len: 0 }
    }

    fn filled(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.len..]
    }
}

/// One of the two kinds of connection that rustls has.
enum Session {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

impl Session {
    /// Takes one step. `plain` gets content that arrived, `out` what has to be sent because of it. Gives how many of
    /// the incoming bytes are done with.
    fn step(
        &mut self,
        incoming: &mut [u8],
        out: &mut Out,
        plain: &mut dyn FnMut(&[u8]),
    ) -> io::Result<(usize, Next)> {
        match self {
            Self::Client(session) => step(session.process_tls_records(incoming), out, plain),
            Self::Server(session) => step(session.process_tls_records(incoming), out, plain),
        }
    }

    /// Encrypts content into `out`, after what rustls itself has to say.
    fn seal(&mut self, content: &[u8], out: &mut Out) -> io::Result<()> {
        loop {
            let sealed = match self {
                Self::Client(session) => seal(session.process_tls_records(&mut []), content, out),
                Self::Server(session) => seal(session.process_tls_records(&mut []), content, out),
            };
            if sealed? {
                return Ok(());
            }
        }
    }
}

fn tls(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    out: &mut Out,
    plain: &mut dyn FnMut(&[u8]),
) -> io::Result<(usize, Next)> {
    let mut discard = status.discard;
    let next = match status.state.map_err(tls)? {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                let record = record.map_err(tls)?;
                discard += record.discard;
                plain(record.payload);
            }
            Next::Again
        }
        ConnectionState::EncodeTlsData(mut data) => {
            out.len += data.encode(out.room()).map_err(|error: EncodeError| tls(error))?;
            Next::Again
        }
        ConnectionState::TransmitTlsData(data) => {
            // It is in `out`, in its order.
            data.done();
            Next::Again
        }
        ConnectionState::BlockedHandshake => Next::More,
        ConnectionState::WriteTraffic(_) => Next::Ready,
        ConnectionState::PeerClosed | ConnectionState::Closed => Next::Closed,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "an unknown state of TLS")),
    };
    Ok((discard, next))
}

/// `true` once the content is in `out`.
fn seal<Data>(status: UnbufferedStatus<'_, '_, Data>, content: &[u8], out: &mut Out) -> io::Result<bool> {
    if let UnbufferedStatus { state: Ok(ConnectionState::WriteTraffic(mut traffic)), .. } = status {
        out.len += traffic.encrypt(content, out.room()).map_err(|error: EncryptError| tls(error))?;
        return Ok(true);
    }
    match step(status, out, &mut |_| {})?.1 {
        // That the other end says no more keeps nobody from writing.
        Next::Again | Next::Closed => Ok(false),
        Next::More | Next::Ready => Err(io::ErrorKind::NotConnected.into()),
    }
}

struct Shared {
    socket: TcpStream,
    state: Mutex<State>,
}

struct State {
    session: Session,
    /// What the reader's steps want sent; it goes before the writer's next bytes.
    owed: Out,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// The side of a connection that content comes from.
pub struct SecureReader {
    shared: Arc<Shared>,
    incoming: Vec<u8>,
    start: usize,
    end: usize,
    /// Content that there was no room for.
    rest: Vec<u8>,
    taken: usize,
    closed: bool,
}

impl SecureReader {
    fn new(shared: Arc<Shared>) -> Self {
        Self { shared, incoming: vec![0; CHUNK], start: 0, end: 0, rest: Vec::new(), taken: 0, closed: false }
    }

    /// Takes what is there, at least a byte; 0 is the end.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            let filled = self.open(into)?;
            if filled > 0 || self.closed {
                return Ok(filled);
            }
            if self.receive()? == 0 {
                self.closed = true;
            }
        }
    }

    /// Decrypts what has arrived, as far as there is room for it.
    fn open(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = &self.rest[self.taken..];
        let mut filled = left.len().min(into.len());
        into[..filled].copy_from_slice(&left[..filled]);
        self.taken += filled;
        if self.start == self.end || filled == into.len() {
            return Ok(filled);
        }
        self.rest.clear();
        self.taken = 0;
        let mut state = self.shared.lock();
        let State { session, owed } = &mut *state;
        while self.start < self.end && filled < into.len() && !self.closed {
            let rest = &mut self.rest;
            let mut plain = |content: &[u8]| {
                let fits = content.len().min(into.len() - filled);
                into[filled..filled + fits].copy_from_slice(&content[..fits]);
                filled += fits;
                rest.extend_from_slice(&content[fits..]);
            };
            let (done, next) = session.step(&mut self.incoming[self.start..self.end], owed, &mut plain)?;
            self.start += done;
            match next {
                Next::Again => {}
                Next::More | Next::Ready => break,
                Next::Closed => self.closed = true,
            }
        }
        Ok(filled)
    }

    /// Takes what the socket has.
    fn receive(&mut self) -> io::Result<usize> {
        self.incoming.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.incoming.len() {
            // A record is never so long.
            return Err(io::ErrorKind::InvalidData.into());
        }
        let n = (&self.shared.socket).read(&mut self.incoming[self.end..])?;
        self.end += n;
        Ok(n)
    }
}

impl AsFd for SecureReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.socket.as_fd()
    }
}

/// The side of a connection that content goes to.
pub struct SecureWriter {
    shared: Arc<Shared>,
    out: Out,
}

impl SecureWriter {
    /// Takes content; what is full is sent.
    pub(crate) fn write(&mut self, mut content: &[u8], liveness: &Liveness) -> io::Result<()> {
        while !content.is_empty() {
            let room = CHUNK.saturating_sub(self.out.len);
            if room < RECORD.min(content.len()) {
                self.flush(liveness)?;
                continue;
            }
            let (now, later) = content.split_at(content.len().min(room));
            self.seal(|session, out| session.seal(now, out))?;
            content = later;
        }
        Ok(())
    }

    fn seal(&mut self, work: impl FnOnce(&mut Session, &mut Out) -> io::Result<()>) -> io::Result<()> {
        let mut state = self.shared.lock();
        if state.owed.len > 0 {
            let owed = state.owed.filled();
            let room = self.out.bytes.get_mut(self.out.len..self.out.len + owed.len());
            room.ok_or(io::ErrorKind::InvalidData)?.copy_from_slice(owed);
            self.out.len += state.owed.len;
            state.owed.len = 0;
        }
        work(&mut state.session, &mut self.out)
    }

    /// Sends what was taken.
    pub(crate) fn flush(&mut self, liveness: &Liveness) -> io::Result<()> {
        let mut socket = &self.shared.socket;
        let sent = write_all(&mut [IoSlice::new(self.out.filled())], &mut socket, liveness, |socket, _| {
            wait(socket.as_fd(), PollFlags::OUT, liveness)
        });
        self.out.len = 0;
        sent
    }

    /// Says that no more will come.
    pub(crate) fn close(mut self) {
        let closed = self.seal(|session, out| {
            let status_len = match session {
                Session::Client(session) => close(session.process_tls_records(&mut []), out),
                Session::Server(session) => close(session.process_tls_records(&mut []), out),
            };
            status_len.map(drop)
        });
        if closed.is_ok() {
            // A socket that is full at this point belongs to a connection that has died.
            let _ = io::Write::write(&mut &self.shared.socket, self.out.filled());
        }
        let _ = self.shared.socket.shutdown(std::net::Shutdown::Write);
    }
}

impl AsFd for SecureWriter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.socket.as_fd()
    }
}

fn close<Data>(status: UnbufferedStatus<'_, '_, Data>, out: &mut Out) -> io::Result<()> {
    if let Ok(ConnectionState::WriteTraffic(mut traffic)) = status.state {
        out.len += traffic.queue_close_notify(out.room()).map_err(|error: EncryptError| tls(error))?;
    }
    Ok(())
}

/// What each end has to know of a connection before it is made.
#[derive(Clone)]
pub struct Credentials {
    /// Who we are.
    pub identity: Identity,
    /// Who the other end has to be.
    pub peer: PublicKey,
    /// The congestion control that was asked for.
    pub congestion: Option<String>,
}

impl Credentials {
    /// Makes a connection of a socket that was connected.
    ///
    /// # Errors
    /// If the other end is not who it should be, or takes longer than `patience`.
    pub fn connect(&self, socket: TcpStream, patience: Duration) -> io::Result<Streams> {
        let session = Session::Client(self.identity.client(&self.peer).map_err(tls)?);
        handshake(&socket, session, self, patience)?.on(socket)
    }

    /// Makes a connection of a socket that was accepted.
    ///
    /// # Errors
    /// If the other end is not who it should be, or takes longer than `patience`.
    pub fn accept(&self, socket: TcpStream, patience: Duration) -> io::Result<Streams> {
        self.prove(&socket, patience)?.on(socket)
    }

    /// The same for a socket that is held elsewhere, too, until the other end has proved who it is.
    pub(crate) fn prove(&self, socket: &TcpStream, patience: Duration) -> io::Result<Proved> {
        let session = Session::Server(self.identity.server(&self.peer).map_err(tls)?);
        handshake(socket, session, self, patience)
    }
}

/// A connection whose ends have proved who they are.
pub(crate) struct Proved {
    session: Session,
    /// Content that came early.
    early: Vec<u8>,
    /// What was received and not looked at yet.
    rest: Vec<u8>,
}

impl Proved {
    /// The streams of the connection, over its socket.
    pub(crate) fn on(self, socket: TcpStream) -> io::Result<Streams> {
        let own = socket.try_clone()?;
        let state = Mutex::new(State { session: self.session, owed: Out::new(OWN) });
        let shared = Arc::new(Shared { socket, state });
        let mut reader = SecureReader::new(shared.clone());
        reader.rest = self.early;
        reader.end = self.rest.len();
        reader.incoming[..reader.end].copy_from_slice(&self.rest);
        let writer = SecureWriter { shared, out: Out::new(OUT) };
        Ok(Streams { from: Receive::secure(reader), to: Transmit::secure(writer), socket: Some(own) })
    }
}

fn handshake(
    socket: &TcpStream,
    mut session: Session,
    credentials: &Credentials,
    patience: Duration,
) -> io::Result<Proved> {
    set_nonblocking(socket)?;
    socket.set_nodelay(true)?;
    let liveness = Liveness::default();
    liveness.end_after(Some(patience));
    let mut incoming = vec![0; RECORD * 2];
    let mut end = 0;
    // Whoever comes to a port costs this much; a buffer for content is for who proved himself.
    let mut out = Out::new(OWN);
    // What came in one packet with the end of the handshake.
    let mut early = Vec::new();
    loop {
        let mut plain = |content: &[u8]| early.extend_from_slice(content);
        let (done, next) = session.step(&mut incoming[..end], &mut out, &mut plain)?;
        incoming.copy_within(done..end, 0);
        end -= done;
        if next == Next::Again {
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
            Next::Ready => break,
            Next::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
            Next::More | Next::Again => {}
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
    suit(socket, credentials.congestion.as_deref());
    incoming.truncate(end);
    Ok(Proved { session, early, rest: incoming })
}
