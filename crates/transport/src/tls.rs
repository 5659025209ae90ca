//! TLS 1.3 on a socket that two threads read and write at the same time.
//!
//! rustls does the cryptography, through its unbuffered interface: it encrypts records into the buffer that is written,
//! and decrypts them in the buffer that was read. Its state is locked while some hundred kilobytes are encrypted or
//! decrypted, and never while a thread waits for the network.

use haul_core::sync::Mutex;
use std::io::{self, IoSlice, Read};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::event::PollFlags;
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};

use crate::liveness::Liveness;
use crate::nonblocking::{wait, write_all};

/// Bytes to encrypt or decrypt at a time, and to move with one system call.
const CHUNK: usize = 256 * 1024;
/// The overhead of a record of at most 16 KiB: a header of 5 bytes, the content type, a tag of 16 bytes (RFC 8446,
/// 5.2).
const RECORD_OVERHEAD: usize = 22;
pub(crate) const RECORD: usize = 16 * 1024;
/// Space for messages that rustls sends itself: handshake, key updates, alerts.
pub(crate) const OWN: usize = 4 * 1024;
/// Space for the records of a chunk, and for messages before them.
const OUT: usize = CHUNK + (CHUNK / RECORD + 2) * RECORD_OVERHEAD + 2 * OWN;

/// The next need of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsNeed {
    /// The same call again.
    Again,
    /// More bytes from the other end.
    More,
    /// It can write content. To read content it needs more bytes.
    Ready,
    /// The other end has closed its direction.
    Closed,
}

/// Bytes on their way to the socket.
pub(crate) struct OutBytes {
    bytes: Vec<u8>,
    pub(crate) len: usize,
}

impl OutBytes {
    pub(crate) fn new(len: usize) -> Self {
        Self { bytes: vec![0; len], len: 0 }
    }

    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.len..]
    }
}

/// One of the two kinds of connection that rustls has.
pub(crate) enum TlsSession {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

impl TlsSession {
    /// Takes one step. `plain` gets content that arrived, `out` bytes to send in answer. Returns how many of the
    /// incoming bytes are done.
    pub(crate) fn step(
        &mut self,
        incoming: &mut [u8],
        out: &mut OutBytes,
        plain: &mut dyn FnMut(&[u8]),
    ) -> io::Result<(usize, TlsNeed)> {
        match self {
            Self::Client(session) => step(session.process_tls_records(incoming), out, plain),
            Self::Server(session) => step(session.process_tls_records(incoming), out, plain),
        }
    }

    /// Encrypts content into `out`, behind messages that rustls sends itself.
    fn seal(&mut self, content: &[u8], out: &mut OutBytes) -> io::Result<()> {
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

pub(crate) fn failed(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    out: &mut OutBytes,
    plain: &mut dyn FnMut(&[u8]),
) -> io::Result<(usize, TlsNeed)> {
    let mut discard = status.discard;
    let next = match status.state.map_err(failed)? {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                let record = record.map_err(failed)?;
                discard += record.discard;
                plain(record.payload);
            }
            TlsNeed::Again
        }
        ConnectionState::EncodeTlsData(mut data) => {
            out.len += data.encode(out.room()).map_err(|error: EncodeError| failed(error))?;
            TlsNeed::Again
        }
        ConnectionState::TransmitTlsData(data) => {
            // The message is in `out` already.
            data.done();
            TlsNeed::Again
        }
        ConnectionState::BlockedHandshake => TlsNeed::More,
        ConnectionState::WriteTraffic(_) => TlsNeed::Ready,
        ConnectionState::PeerClosed | ConnectionState::Closed => TlsNeed::Closed,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "an unknown state of TLS")),
    };
    Ok((discard, next))
}

/// `true` once the content is in `out`.
fn seal<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    content: &[u8],
    out: &mut OutBytes,
) -> io::Result<bool> {
    if let UnbufferedStatus { state: Ok(ConnectionState::WriteTraffic(mut traffic)), .. } = status {
        out.len += traffic.encrypt(content, out.room()).map_err(|error: EncryptError| failed(error))?;
        return Ok(true);
    }
    match step(status, out, &mut |_| {})?.1 {
        // This end may still write when the other end has closed its direction.
        TlsNeed::Again | TlsNeed::Closed => Ok(false),
        TlsNeed::More | TlsNeed::Ready => Err(io::ErrorKind::NotConnected.into()),
    }
}

struct SharedTls {
    socket: TcpStream,
    state: Mutex<TlsState>,
}

struct TlsState {
    session: TlsSession,
    /// Messages that the reader has to send. They go before the next bytes of the writer.
    owed: OutBytes,
}

/// The reading direction of a connection.
pub struct SecureReader {
    shared: Arc<SharedTls>,
    incoming: Vec<u8>,
    start: usize,
    end: usize,
    /// Decrypted content that did not fit.
    rest: Vec<u8>,
    taken: usize,
    closed: bool,
}

impl SecureReader {
    fn new(shared: Arc<SharedTls>) -> Self {
        Self { shared, incoming: vec![0; CHUNK], start: 0, end: 0, rest: Vec::new(), taken: 0, closed: false }
    }

    /// Reads the content that is there, one byte at least. 0 is the end.
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

    /// Decrypts received bytes, as far as the content fits.
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
        let mut state = self.shared.state.lock();
        let TlsState { session, owed } = &mut *state;
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
                TlsNeed::Again => {}
                TlsNeed::More | TlsNeed::Ready => break,
                TlsNeed::Closed => self.closed = true,
            }
        }
        Ok(filled)
    }

    /// Reads from the socket.
    fn receive(&mut self) -> io::Result<usize> {
        self.incoming.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.incoming.len() {
            // No record is that long.
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

/// The writing direction of a connection.
pub struct SecureWriter {
    shared: Arc<SharedTls>,
    out: OutBytes,
}

impl SecureWriter {
    /// Encrypts content, and sends full chunks.
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

    fn seal(
        &mut self,
        work: impl FnOnce(&mut TlsSession, &mut OutBytes) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        if state.owed.len > 0 {
            let owed = state.owed.filled();
            let room = self.out.bytes.get_mut(self.out.len..self.out.len + owed.len());
            room.ok_or(io::ErrorKind::InvalidData)?.copy_from_slice(owed);
            self.out.len += state.owed.len;
            state.owed.len = 0;
        }
        work(&mut state.session, &mut self.out)
    }

    /// Sends all encrypted content.
    pub(crate) fn flush(&mut self, liveness: &Liveness) -> io::Result<()> {
        let mut socket = &self.shared.socket;
        let sent = write_all(&mut [IoSlice::new(self.out.filled())], &mut socket, liveness, |socket, _| {
            wait(socket.as_fd(), PollFlags::OUT, liveness)
        });
        self.out.len = 0;
        sent
    }

    /// Closes the writing direction.
    pub(crate) fn close(mut self) {
        let closed = self.seal(|session, out| {
            let status_len = match session {
                TlsSession::Client(session) => close(session.process_tls_records(&mut []), out),
                TlsSession::Server(session) => close(session.process_tls_records(&mut []), out),
            };
            status_len.map(drop)
        });
        if closed.is_ok() {
            // If the socket is full now, the connection is dead.
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

fn close<Data>(status: UnbufferedStatus<'_, '_, Data>, out: &mut OutBytes) -> io::Result<()> {
    if let Ok(ConnectionState::WriteTraffic(mut traffic)) = status.state {
        out.len += traffic.queue_close_notify(out.room()).map_err(|error: EncryptError| failed(error))?;
    }
    Ok(())
}

/// The two sides of a connection on this socket. `plain` was decrypted before, `received` was not looked at yet.
pub(crate) fn split(
    session: TlsSession,
    socket: TcpStream,
    plain: Vec<u8>,
    received: &[u8],
) -> (SecureReader, SecureWriter) {
    let shared =
        Arc::new(SharedTls { socket, state: Mutex::new(TlsState { session, owed: OutBytes::new(OWN) }) });
    let mut reader = SecureReader::new(shared.clone());
    reader.rest = plain;
    reader.end = received.len();
    reader.incoming[..reader.end].copy_from_slice(received);
    (reader, SecureWriter { shared, out: OutBytes::new(OUT) })
}
