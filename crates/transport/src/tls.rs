//! TLS 1.3 on a socket that two threads read and write at the same time.
//!
//! rustls does the handshake and derives the keys; [`crate::records`] encrypts and decrypts with them.

use std::io::{self, IoSlice, Read};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::event::PollFlags;
use rustls::client::UnbufferedClientConnection;
use rustls::kernel::KernelConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{ExtractedSecrets, SupportedCipherSuite};

use crate::liveness::Liveness;
use crate::nonblocking::{wait, write_all};
use crate::records::{Direction, KeyUpdates, NextKey, RecordKey, RecordOpener, RecordSealer};

/// Space for the messages of a handshake.
pub(crate) const OWN: usize = 4 * 1024;

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

    /// The keys of the connection, once the handshake is done.
    fn into_keys(self) -> io::Result<(ExtractedSecrets, SupportedCipherSuite, NextKey)> {
        match self {
            Self::Client(session) => keys(session.dangerous_into_kernel_connection()),
            Self::Server(session) => keys(session.dangerous_into_kernel_connection()),
        }
    }
}

fn keys<Data: 'static>(
    session: Result<(ExtractedSecrets, KernelConnection<Data>), rustls::Error>,
) -> io::Result<(ExtractedSecrets, SupportedCipherSuite, NextKey)>
where
    KernelConnection<Data>: Send,
{
    let (secrets, mut session) = session.map_err(failed)?;
    let suite = session.negotiated_cipher_suite();
    let next = move |direction| {
        let secrets = match direction {
            Direction::Receive => session.update_rx_secret(),
            Direction::Send => session.update_tx_secret(),
        };
        RecordKey::new(secrets.map_err(failed)?)
    };
    Ok((secrets, suite, Box::new(next)))
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

/// The reading direction of a connection.
pub struct SecureReader {
    socket: Arc<TcpStream>,
    records: RecordOpener,
}

impl SecureReader {
    /// Reads the content that is there, one byte at least. 0 is the end.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            let filled = self.records.open(into)?;
            if filled > 0 || self.records.is_closed() {
                return Ok(filled);
            }
            let received = (&*self.socket).read(self.records.room())?;
            self.records.received(received);
        }
    }
}

impl AsFd for SecureReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The writing direction of a connection.
pub struct SecureWriter {
    socket: Arc<TcpStream>,
    records: RecordSealer,
}

impl SecureWriter {
    /// Updates the key after so many records.
    #[cfg(test)]
    fn limit(&mut self, records: u64) {
        self.records.limit = records;
    }

    /// Encrypts content, and sends full chunks.
    pub(crate) fn write(&mut self, mut content: &[u8], liveness: &Liveness) -> io::Result<()> {
        while !content.is_empty() {
            if self.records.is_full() {
                self.flush(liveness)?;
            }
            content = self.records.seal(content)?;
        }
        Ok(())
    }

    /// Sends all encrypted content.
    pub(crate) fn flush(&mut self, liveness: &Liveness) -> io::Result<()> {
        let mut socket = &*self.socket;
        let records = &mut [IoSlice::new(self.records.sealed())];
        let sent = write_all(records, &mut socket, liveness, |socket, _| {
            wait(socket.as_fd(), PollFlags::OUT, liveness)
        });
        self.records.clear();
        sent
    }

    /// Closes the writing direction.
    pub(crate) fn close(mut self) {
        if self.records.seal_close().is_ok() {
            // If the socket is full now, the connection is dead.
            let _ = io::Write::write(&mut &*self.socket, self.records.sealed());
        }
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
    }
}

impl AsFd for SecureWriter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The two sides of a connection on this socket. `early` was decrypted before, `received` was not looked at yet.
///
/// A peer that asks for a new key in the packet that ends the handshake gets no connection, because rustls keeps its answer.
/// No haul does that.
///
/// # Errors
/// If the handshake is not done, or rustls keeps the keys.
pub(crate) fn split(
    session: TlsSession,
    socket: TcpStream,
    early: Vec<u8>,
    received: &[u8],
) -> io::Result<(SecureReader, SecureWriter)> {
    let (ExtractedSecrets { tx, rx }, suite, next) = session.into_keys()?;
    let suite = suite.tls13().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not TLS 1.3"))?;
    let limit = suite.common.confidentiality_limit;
    let socket = Arc::new(socket);
    let updates = Arc::new(KeyUpdates::new(next));
    let mut reader = RecordOpener::new(RecordKey::new(rx)?, updates.clone(), early);
    if !received.is_empty() {
        let room = reader.room().get_mut(..received.len()).ok_or(io::ErrorKind::InvalidData)?;
        room.copy_from_slice(received);
        reader.received(received.len());
    }
    let writer = RecordSealer::new(RecordKey::new(tx)?, limit, updates);
    Ok((SecureReader { socket: socket.clone(), records: reader }, SecureWriter { socket, records: writer }))
}

#[cfg(test)]
mod tests;
