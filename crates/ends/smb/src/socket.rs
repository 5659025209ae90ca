//! The socket of a connection, and the frames on it: a length of three bytes, and one or more messages.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{Either, select};
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

/// Bytes that the kernel holds unsent. The server has to answer a frame in time once the kernel has all of it. Several
/// megabytes on each of many connections take longer over a slow link.
const UNSENT: u32 = 1 << 20;

/// A connected socket.
pub(super) struct ShareSocket {
    /// A frame fails if none of it could be sent for so long. A whole frame may take longer.
    stall: Duration,
    reader: Mutex<OwnedReadHalf>,
    writer: Mutex<OwnedWriteHalf>,
    progress: Arc<ReceiveProgress>,
}

impl ShareSocket {
    /// Connects to `host:port`, at the first of its addresses that answers within `timeout`. `stall`: how long the socket may
    /// take nothing.
    ///
    /// # Errors
    /// That an address refuses the connection, if one does; else that of the last one.
    pub(super) async fn connect(address: &str, timeout: Duration, stall: Duration) -> io::Result<Self> {
        let mut failed = io::Error::from(io::ErrorKind::TimedOut);
        let stream = match tokio::time::timeout(timeout, dial(address, &mut failed)).await {
            Ok(stream) => stream?,
            Err(_) => None,
        };
        let stream = stream.ok_or(failed)?;
        stream.set_nodelay(true)?;
        haul_transport::tcp::limit_unsent(&stream, UNSENT);
        let (reader, writer) = stream.into_split();
        let progress = Arc::new(ReceiveProgress::new());
        Ok(Self { stall, reader: Mutex::new(reader), writer: Mutex::new(writer), progress })
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
        self.write(&mut writer, &len.to_be_bytes()).await?;
        for part in parts {
            self.write(&mut writer, part).await?;
        }
        Ok(())
    }

    async fn write(&self, writer: &mut OwnedWriteHalf, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = tokio::time::timeout(self.stall, writer.write(bytes)).await??;
            bytes = bytes.get(written..).filter(|_| written > 0).ok_or(io::ErrorKind::WriteZero)?;
        }
        Ok(())
    }
}

/// Connects to the addresses of a host one after the other: to the next one as soon as one fails or takes long, while the
/// others go on (RFC 8305). `None` if none answers: the reason is in `failed`.
async fn dial(address: &str, failed: &mut io::Error) -> io::Result<Option<TcpStream>> {
    let found = tokio::net::lookup_host(address).await?;
    let (v6, v4): (Vec<_>, Vec<_>) = found.partition(SocketAddr::is_ipv6);
    let mut addresses = alternately(v6, v4).into_iter().take(ADDRESSES);
    let mut attempts = FuturesUnordered::new();
    loop {
        if let Some(next) = addresses.next() {
            attempts.push(TcpStream::connect(next));
        } else if attempts.is_empty() {
            return Ok(None);
        }
        let is_last = addresses.len() == 0;
        let pause = async {
            if is_last { std::future::pending().await } else { tokio::time::sleep(NEXT_ADDRESS).await }
        };
        match select(attempts.next(), pin!(pause)).await {
            Either::Left((Some(Ok(stream)), _)) => return Ok(Some(stream)),
            Either::Left((Some(Err(error)), _)) if failed.kind() != io::ErrorKind::ConnectionRefused => {
                *failed = error;
            }
            _ => {}
        }
    }
}

/// One of each in turn.
fn alternately<T>(one: Vec<T>, other: Vec<T>) -> Vec<T> {
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    let mut all = Vec::new();
    loop {
        let pair = [one.next(), other.next()];
        if pair.iter().all(Option::is_none) {
            return all;
        }
        all.extend(pair.into_iter().flatten());
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

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::runtime::block_on;

    #[test]
    fn a_refused_connection_is_named_even_if_another_address_is_silent() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let connect = |address: &str| {
            let seconds = Duration::from_secs(3);
            block_on(ShareSocket::connect(address, seconds, seconds)).unwrap()
        };
        assert!(connect(&address).is_ok());
        drop(listener);
        let refused = connect(&address).map(drop).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert!(connect("nohost.invalid:445").is_err());
    }

    /// Sends a long frame to a server that takes a piece of it after each pause, or nothing.
    fn send_to(pause: Option<Duration>, stall: Duration) -> io::Result<()> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let (mut client, mut piece) = (listener.accept().unwrap().0, vec![0; 256 * 1024]);
            if let Some(pause) = pause {
                while client.read(&mut piece).unwrap() > 0 {
                    std::thread::sleep(pause);
                }
            }
            client
        });
        let frame = vec![7; 12 << 20];
        let sent = block_on(async {
            let socket = ShareSocket::connect(&address, Duration::from_secs(3), stall).await?;
            socket.send_parts(&[&frame[..64], &frame[64..]]).await
        });
        drop(server.join().unwrap());
        sent.unwrap()
    }

    #[test]
    fn a_frame_may_take_longer_than_the_server_may_take_nothing() {
        let stall = Duration::from_secs(1);
        send_to(Some(Duration::from_millis(40)), stall).unwrap();
        assert_eq!(send_to(None, stall).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn addresses_alternate_between_the_families() {
        assert_eq!(alternately(vec![1, 2, 3], vec![7]), [1, 7, 2, 3]);
        assert_eq!(alternately(vec![], vec![7, 8]), [7, 8]);
    }
}
