//! Large writes whose content the library never holds, as it copies each request three times. It gets a short request,
//! with a number in the place of the content. The caller, who has the content, gets the frame before it is sent, puts the
//! content in, signs the message again, and sends it.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use haul_core::sync::Mutex;
use smb2::pack::{Pack, WriteCursor};
use smb2::types::Command;
use tokio::sync::oneshot;

use super::signature::{ALIGNMENT, HEAD_LEN, SIGNATURE_LEN, WriteSigner};
use super::socket::ShareSocket;
use super::step::BorrowedWrite;

/// Where the fields of a message are (MS-SMB2, 2.2.1 and 2.2.21).
const PROTOCOL: [u8; 4] = *b"\xfeSMB";
const COMMAND: usize = 12;
const FLAGS: usize = 16;
const NEXT: usize = 20;
const ID: usize = 24;
const SIGNATURE: usize = 48;
const CONTENT_LEN: usize = 64 + 4;
/// The flag of a signed message.
const SIGNED: u8 = 8;

/// A write with a number in the place of its content.
pub(super) struct NumberedWrite<'a> {
    pub(super) write: &'a BorrowedWrite<'a>,
    pub(super) number: u64,
}

impl Pack for NumberedWrite<'_> {
    fn pack(&self, cursor: &mut WriteCursor) {
        self.write.pack_head(cursor);
        cursor.write_u64_le(self.number);
    }
}

/// A frame on its way from the library to the caller who has the content.
struct Handover {
    frame: Vec<u8>,
    /// Gets the result.
    sent: oneshot::Sender<io::Result<()>>,
}

/// The callers that wait for their frames, by the numbers in them.
#[derive(Default)]
pub(super) struct Handovers(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    last: u64,
    callers: HashMap<u64, oneshot::Sender<Handover>>,
}

impl Handovers {
    /// Begins to wait for a frame.
    pub(super) fn expect(self: &Arc<Self>) -> ExpectedFrame {
        let (caller, frame) = oneshot::channel();
        let mut waiting = self.0.lock();
        waiting.last += 1;
        let number = waiting.last;
        waiting.callers.insert(number, caller);
        ExpectedFrame { number, frame, all: Arc::clone(self) }
    }

    /// Hands a frame over and waits until it was sent. `None` if the frame is whole.
    pub(super) async fn send(&self, frame: &[u8]) -> Option<io::Result<()>> {
        let number = u64_at(frame, numbered(frame)? + HEAD_LEN)?;
        let caller = self.0.lock().callers.remove(&number);
        let (sent, result) = oneshot::channel();
        let given =
            caller.is_some_and(|caller| caller.send(Handover { frame: frame.to_vec(), sent }).is_ok());
        // A caller that went away may have sent a part of the frame.
        let gone = || Err(io::ErrorKind::BrokenPipe.into());
        Some(if given { result.await.unwrap_or_else(|_| gone()) } else { gone() })
    }
}

/// A frame that a caller waits for.
pub(super) struct ExpectedFrame {
    pub(super) number: u64,
    frame: oneshot::Receiver<Handover>,
    all: Arc<Handovers>,
}

impl ExpectedFrame {
    /// Waits for the frame and sends it with its content.
    pub(super) async fn send(mut self, socket: &ShareSocket, signer: &WriteSigner, content: &[u8]) {
        let Ok(Handover { frame, sent }) = (&mut self.frame).await else { return };
        let result = match whole(&frame, signer, content) {
            Some([head, padding, tail]) => socket.send_parts(&[&head, content, &padding, &tail]).await,
            None => Err(io::ErrorKind::InvalidData.into()),
        };
        // The library may have ended the connection.
        let _gone = sent.send(result);
    }
}

impl Drop for ExpectedFrame {
    fn drop(&mut self) {
        self.all.0.lock().callers.remove(&self.number);
    }
}

/// Where the message begins whose content is not there. Other frames than those of messages, such as encrypted ones, may
/// hold any bytes.
fn numbered(frame: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        if !frame.get(at..)?.starts_with(&PROTOCOL) {
            return None;
        }
        let next = u32_at(frame, at + NEXT)? as usize;
        let end = if next == 0 { frame.len() } else { at + next };
        if frame.get(at + COMMAND..at + COMMAND + 2)? == (Command::Write as u16).to_le_bytes()
            && u32_at(frame, at + CONTENT_LEN)? as usize > end.checked_sub(at + HEAD_LEN)?
        {
            return Some(at);
        }
        if next == 0 {
            return None;
        }
        at = end;
    }
}

/// The parts of the frame before its content and after it.
fn whole(frame: &[u8], signer: &WriteSigner, content: &[u8]) -> Option<[Vec<u8>; 3]> {
    let at = numbered(frame)?;
    let next = u32_at(frame, at + NEXT)? as usize;
    let (mut padding, mut tail) = (0, &[][..]);
    let mut before = frame.get(..at)?.to_vec();
    let mut head: [u8; HEAD_LEN] = frame.get(at..at + HEAD_LEN)?.try_into().ok()?;
    if next > 0 {
        padding = content.len().next_multiple_of(ALIGNMENT) - content.len();
        tail = frame.get(at + next..)?;
        let next = u32::try_from(HEAD_LEN + content.len() + padding).ok()?;
        head[NEXT..NEXT + 4].copy_from_slice(&next.to_le_bytes());
    }
    if head[FLAGS] & SIGNED > 0 {
        head[SIGNATURE..][..SIGNATURE_LEN].fill(0);
        let signature = signer.sign(u64_at(&head, ID)?, &head, content, padding).ok()?;
        head[SIGNATURE..][..SIGNATURE_LEN].copy_from_slice(&signature);
    }
    before.extend(head);
    Some([before, vec![0; padding], tail.to_vec()])
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use smb2::crypto::signing::{SigningAlgorithm, sign_message};
    use smb2::msg::close::CloseRequest;
    use smb2::types::FileId;

    use super::*;
    use crate::step::ChainStep;

    const KEY: [u8; 16] = *b"a key of a share";

    /// A frame of signed messages.
    fn frame(messages: &[(Command, &dyn Pack)]) -> Vec<u8> {
        let mut frame = Vec::new();
        for (at, (command, body)) in messages.iter().enumerate() {
            let mut message = vec![0; 64];
            message[..4].copy_from_slice(&PROTOCOL);
            message[COMMAND] = *command as u16 as u8;
            message[FLAGS] = SIGNED;
            message[ID] = at as u8;
            let mut cursor = WriteCursor::new();
            body.pack(&mut cursor);
            message.extend(cursor.into_inner());
            if at + 1 < messages.len() {
                message.resize(message.len().next_multiple_of(ALIGNMENT), 0);
                let next = message.len() as u32;
                message[NEXT..NEXT + 4].copy_from_slice(&next.to_le_bytes());
            }
            sign_message(&mut message, &KEY, SigningAlgorithm::AesGmac, at as u64, false).unwrap();
            frame.extend(message);
        }
        frame
    }

    #[test]
    fn the_content_takes_the_place_of_its_number() {
        let signer = WriteSigner::new(KEY, SigningAlgorithm::AesGmac);
        let close = CloseRequest { flags: 0, file_id: FileId::SENTINEL };
        for len in [65_536, 65_539] {
            let content = vec![7; len];
            let step = ChainStep::write(9, &content, true);
            let write = step.large_write().unwrap();
            let number = NumberedWrite { write, number: 3 };
            for tail in [&[][..], &[(Command::Close, &close as &dyn Pack)]] {
                let head = (Command::Close, &close as &dyn Pack);
                let whole_frame = frame(&[&[head, (Command::Write, write)], tail].concat());
                assert_eq!(numbered(&whole_frame), None);
                let numbered_frame = frame(&[&[head, (Command::Write, &number)], tail].concat());
                let [before, padding, after] = whole(&numbered_frame, &signer, &content).unwrap();
                assert!([&before[..], &content, &padding, &after].concat() == whole_frame, "{len}");
            }
        }
    }

    #[test]
    fn a_frame_that_is_cut_is_whole_or_nothing() {
        let content = vec![7; 65_536];
        let step = ChainStep::write(9, &content, true);
        let number = NumberedWrite { write: step.large_write().unwrap(), number: 3 };
        let frame = frame(&[(Command::Write, &number)]);
        for len in 0..frame.len() {
            let _no_panic = numbered(&frame[..len]);
        }
    }

    #[test]
    fn an_encrypted_frame_is_whole_whatever_it_holds() {
        let content = vec![7; 65_536];
        let step = ChainStep::write(9, &content, true);
        let number = NumberedWrite { write: step.large_write().unwrap(), number: 3 };
        let mut frame = frame(&[(Command::Write, &number)]);
        assert_eq!(numbered(&frame), Some(0));
        frame[0] = 0xfd;
        assert_eq!(numbered(&frame), None);
    }

    #[test]
    fn without_a_caller_the_connection_is_lost() {
        let content = vec![7; 65_536];
        let step = ChainStep::write(9, &content, true);
        let all = Arc::new(Handovers::default());
        let expected = all.expect();
        let number = NumberedWrite { write: step.large_write().unwrap(), number: expected.number };
        let frame = frame(&[(Command::Write, &number)]);
        drop(expected);
        let sent = crate::runtime::block_on(all.send(&frame)).unwrap();
        assert_eq!(sent.unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert!(all.0.lock().callers.is_empty());
        assert!(crate::runtime::block_on(all.send(&frame[..64])).unwrap().is_none());
    }
}
