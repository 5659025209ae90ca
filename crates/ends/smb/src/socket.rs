//! The socket of a connection, and the frames on it: a length of three bytes, and one or more messages.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{FuturesUnordered, StreamExt};
use smb2::transport::{ReceiveProgress, TransportReceive, TransportSend};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Mutex;

/// No frame is this long: its length has three bytes, and the byte before them is 0.
const TOO_LONG: u32 = 1 << 24;
/// The most addresses of a host that are tried, and the pause before the next one is tried beside the others (RFC 8305).
const ADDRESSES: usize = 8;
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

/// A connected socket.
pub(super) struct ShareSocket {
    reader: Mutex<OwnedReadHalf>,
    writer: Mutex<OwnedWriteHalf>,
    progress: Arc<ReceiveProgress>,
}

impl ShareSocket {
    /// Connects to the first address of `host:port` that answers.
    ///
    /// # Errors
    /// Those of the last address.
    pub(super) async fn connect(address: &str) -> io::Result<Self> {
        let addresses = tokio::net::lookup_host(address).await?.take(ADDRESSES);
        let dial = async |(place, address): (u32, SocketAddr)| {
            tokio::time::sleep(NEXT_ADDRESS * place).await;
            TcpStream::connect(address).await
        };
        let mut attempts: FuturesUnordered<_> = (0..).zip(addresses).map(dial).collect();
        let mut failed = io::Error::from(io::ErrorKind::NotFound);
        while let Some(attempt) = attempts.next().await {
            match attempt {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    let (reader, writer) = stream.into_split();
                    let progress = Arc::new(ReceiveProgress::new());
                    return Ok(Self { reader: Mutex::new(reader), writer: Mutex::new(writer), progress });
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Sends a frame made of `parts`. If this future is dropped before it ends, the connection is of no use any more.
    ///
    /// # Errors
    /// Those of the socket, and `InvalidInput` if a frame cannot be so long.
    pub(super) async fn send_parts(&self, parts: &[&[u8]]) -> io::Result<()> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let len = u32::try_from(len).ok().filter(|len| *len < TOO_LONG);
        let len = len.ok_or(io::ErrorKind::InvalidInput)?;
        let mut writer = self.writer.lock().await;
        writer.write_all(&len.to_be_bytes()).await?;
        for part in parts {
            writer.write_all(part).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl TransportSend for ShareSocket {
    async fn send(&self, data: &[u8]) -> smb2::Result<()> {
        Ok(self.send_parts(&[data]).await?)
    }
}

/// Tells the library that a frame is being received, until it is dropped.
struct ReceivingFrame<'a>(&'a ReceiveProgress);

impl Drop for ReceivingFrame<'_> {
    fn drop(&mut self) {
        self.0.end_frame();
    }
}

#[async_trait]
impl TransportReceive for ShareSocket {
    async fn receive(&self) -> smb2::Result<Vec<u8>> {
        let mut reader = self.reader.lock().await;
        let len = reader.read_u32().await.map_err(ended)?;
        if len >= TOO_LONG {
            return Err(smb2::Error::invalid_data("the server sends something else than frames"));
        }
        let len = len as usize;
        self.progress.begin_frame(len);
        let _frame = ReceivingFrame(&self.progress);
        let mut frame = Vec::new();
        frame.try_reserve_exact(len).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        while frame.len() < len {
            let mut rest = (&mut *reader).take((len - frame.len()) as u64);
            let read = rest.read_buf(&mut frame).await.map_err(ended)?;
            if read == 0 {
                return Err(smb2::Error::Disconnected);
            }
            self.progress.record(read);
        }
        Ok(frame)
    }

    fn receive_progress(&self) -> Option<Arc<ReceiveProgress>> {
        Some(Arc::clone(&self.progress))
    }
}

fn ended(error: io::Error) -> smb2::Error {
    if error.kind() == io::ErrorKind::UnexpectedEof { smb2::Error::Disconnected } else { error.into() }
}
