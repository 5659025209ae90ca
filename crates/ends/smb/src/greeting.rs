//! The negotiation: the library does not say that it can encrypt, and Samba then does not. And it offers AES-256, but then
//! derives a key for signatures that is too long, so that no login succeeds. So haul changes the request on its way, and
//! computes the hash that protects the negotiation from the messages as they were sent.
//!
//! After it, large writes leave through their callers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use haul_core::Timestamp;
use haul_core::sync::Mutex;
use smb2::client::Connection;
use smb2::crypto::kdf::PreauthHasher;
use smb2::transport::{ReceiveProgress, TransportReceive, TransportSend};
use smb2::types::flags::Capabilities;

use super::attrs::timestamp;
use super::ciphers::without_aes_256;
use super::handover::Handovers;
use super::socket::ShareSocket;

/// Where the command is in the header of a message; that of a negotiation is 0.
const COMMAND: usize = 12;
/// Where the time of the server is in the answer, in units of 100 ns since 1601.
const SERVER_TIME: usize = 64 + 40;
/// Where the capabilities are in the request of a negotiation.
const CAPABILITIES: usize = 64 + 8;

/// The way of messages from the library to the socket and back. It keeps those of the negotiation.
pub(super) struct ShareWire {
    pub(super) socket: ShareSocket,
    pub(super) handovers: Arc<Handovers>,
    /// The request and the answer, until they were taken.
    greeting: Mutex<Option<Vec<Vec<u8>>>>,
}

impl ShareWire {
    fn keep(&self, message: &[u8]) {
        if let Some(greeting) = &mut *self.greeting.lock()
            && greeting.len() < 2
        {
            greeting.push(message.to_vec());
        }
    }
}

#[async_trait]
impl TransportSend for ShareWire {
    async fn send(&self, data: &[u8]) -> smb2::Result<()> {
        let is_request = data.get(COMMAND..COMMAND + 2) == Some(&[0, 0]) && data.len() > CAPABILITIES;
        if !is_request || self.greeting.lock().is_none() {
            return match self.handovers.send(data).await {
                Some(sent) => Ok(sent?),
                None => self.socket.send(data).await,
            };
        }
        let mut request = without_aes_256(data).unwrap_or_else(|| data.to_vec());
        request[CAPABILITIES] |= Capabilities::ENCRYPTION as u8;
        self.keep(&request);
        self.socket.send(&request).await
    }
}

#[async_trait]
impl TransportReceive for ShareWire {
    async fn receive(&self) -> smb2::Result<Vec<u8>> {
        let message = self.socket.receive().await?;
        self.keep(&message);
        Ok(message)
    }

    fn receive_progress(&self) -> Option<Arc<ReceiveProgress>> {
        self.socket.receive_progress()
    }
}

/// Connects. The caller must call [`ShareWire::negotiate`] next.
pub(super) async fn connect(
    address: &str,
    host: &str,
    timeout: Duration,
    stall: Duration,
) -> io::Result<(Connection, Arc<ShareWire>)> {
    let socket = ShareSocket::connect(address, timeout, stall).await?;
    let greeting = Mutex::new(Some(Vec::new()));
    let wire = Arc::new(ShareWire { socket, handovers: Arc::default(), greeting });
    let conn = Connection::from_transport(Box::new(Arc::clone(&wire)), Box::new(Arc::clone(&wire)), host);
    Ok((conn, wire))
}

impl ShareWire {
    /// Agrees with the server on the dialect and the ciphers. Returns the time of the server.
    pub(super) async fn negotiate(&self, conn: &mut Connection) -> smb2::Result<Option<Timestamp>> {
        conn.negotiate().await?;
        let messages = self.greeting.lock().take().unwrap_or_default();
        conn.with_preauth_hasher_mut(|hasher| {
            *hasher = PreauthHasher::new();
            messages.iter().for_each(|message| hasher.update(message));
        });
        Ok(messages.get(1).and_then(|answer| server_time(answer)))
    }
}

/// The time in the answer to a negotiation.
fn server_time(answer: &[u8]) -> Option<Timestamp> {
    let bytes = answer.get(SERVER_TIME..SERVER_TIME + 8)?.try_into().ok()?;
    Some(u64::from_le_bytes(bytes)).filter(|time| *time != 0).map(timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_the_server_is_in_its_answer_or_unknown() {
        let mut answer = vec![0; SERVER_TIME + 8];
        assert_eq!(server_time(&answer), None);
        answer[SERVER_TIME..].copy_from_slice(&(11_644_473_607_u64 * 10_000_000).to_le_bytes());
        assert_eq!(server_time(&answer).map(|time| time.sec), Some(7));
        assert_eq!(server_time(&answer[..SERVER_TIME]), None);
        assert!(server_time(&[0xff; 200]).is_some());
    }
}
