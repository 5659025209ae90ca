//! The record layer of TLS 1.3 (RFC 8446, 5), once the handshake is done.
//!
//! rustls would copy all content once more, into its records and out of them. Here AES reads from one buffer and
//! writes to the other: content is sealed into the buffer that is sent, and opened into the buffer of the caller.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305};
use aws_lc_rs::aead::{LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use haul_core::sync::Mutex;
use rustls::ConnectionTrafficSecrets;

/// Bytes to seal or open at a time, and to move with one system call.
const CHUNK: usize = 256 * 1024;
/// The most content of a record.
pub(crate) const RECORD: usize = 16 * 1024;
const HEADER: usize = 5;
const TAG: usize = 16;
/// The bytes of a record beside its content: the header, the type of the content, and the tag.
const OVERHEAD: usize = HEADER + 1 + TAG;
/// Records without content in a row, which nobody has a reason to send.
const IDLE_RECORDS: u32 = 32;

/// The type of the content of a record (RFC 8446, B.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordType {
    /// The end of a direction, or an error.
    Alert = 21,
    /// A message after the handshake, such as an update of a key.
    Handshake = 22,
    /// Content.
    Content = 23,
}

/// The message "the next records have another key", which asks for none in return (RFC 8446, 4.6.3).
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
const NEW_SESSION_TICKET: u8 = 4;
/// The level `warning` and the description `close_notify` (RFC 8446, 6).
const CLOSE: [u8; 2] = [1, 0];

fn invalid(cause: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {cause}"))
}

/// The key of one direction, and the number of its next record.
pub struct RecordKey {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    number: u64,
}

impl RecordKey {
    /// A key of rustls, and the number of its next record.
    ///
    /// # Errors
    /// If the cipher is none of the three of TLS 1.3 that haul speaks.
    pub fn new((number, secrets): (u64, ConnectionTrafficSecrets)) -> io::Result<Self> {
        let (algorithm, key, iv): (&'static Algorithm, _, _) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(invalid("an unknown cipher")),
        };
        let key = UnboundKey::new(algorithm, key.as_ref()).map_err(|_| invalid("a key of another length"))?;
        let iv = iv.as_ref().try_into().map_err(|_| invalid("an IV of another length"))?;
        Ok(Self { key: LessSafeKey::new(key), iv, number })
    }

    /// The nonce of the next record, which no other record of this key gets (RFC 8446, 5.3).
    fn nonce(&mut self) -> io::Result<Nonce> {
        let mut nonce = self.iv;
        for (byte, number) in nonce[NONCE_LEN - 8..].iter_mut().zip(self.number.to_be_bytes()) {
            *byte ^= number;
        }
        self.number = self.number.checked_add(1).ok_or_else(|| invalid("too many records"))?;
        Ok(Nonce::assume_unique_for_key(nonce))
    }

    /// Seals at most [`RECORD`] bytes into the beginning of `out`. Returns the length of the record.
    fn seal(&mut self, kind: RecordType, content: &[u8], out: &mut [u8]) -> io::Result<usize> {
        let len = content.len() + 1 + TAG;
        let record = out.get_mut(..HEADER + len).filter(|_| content.len() <= RECORD);
        let (header, rest) = record.ok_or_else(|| invalid("no room for a record"))?.split_at_mut(HEADER);
        let (sealed, trailer) = rest.split_at_mut(content.len());
        // `len` has 15 bits. The type and the version are those of all records of TLS 1.3.
        header.copy_from_slice(&[RecordType::Content as u8, 3, 3, (len >> 8) as u8, len as u8]);
        let nonce = self.nonce()?;
        self.key
            .seal_out_of_place_scatter(nonce, Aad::from(header), content, sealed, &[kind as u8], trailer)
            .map_err(|_| invalid("a record cannot be encrypted"))?;
        Ok(HEADER + len)
    }

    /// Opens a record into `into`, which has its [`SealedRecord::inner_len`]. Returns the type and length of the content.
    fn open(&mut self, record: &SealedRecord<'_>, into: &mut [u8]) -> io::Result<(RecordType, usize)> {
        let nonce = self.nonce()?;
        self.key
            .open_separate_gather(nonce, Aad::from(record.header), record.sealed, record.tag, into)
            .map_err(|_| invalid("a record is damaged"))?;
        // Zeros may follow the type.
        let at = into.iter().rposition(|byte| *byte != 0).ok_or_else(|| invalid("a record without type"))?;
        let kind = match into[at] {
            21 => RecordType::Alert,
            22 => RecordType::Handshake,
            23 => RecordType::Content,
            _ => return Err(invalid("a record of another type")),
        };
        Ok((kind, at))
    }
}

/// A whole record as it was received.
struct SealedRecord<'a> {
    header: &'a [u8],
    sealed: &'a [u8],
    tag: &'a [u8],
}

impl<'a> SealedRecord<'a> {
    /// The record at the beginning of `bytes`, if all of it is there.
    fn first(bytes: &'a [u8]) -> io::Result<Option<Self>> {
        let Some((header, rest)) = bytes.split_at_checked(HEADER) else { return Ok(None) };
        let len = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if header[0] != RecordType::Content as u8 {
            return Err(invalid("a record that is not encrypted"));
        }
        // Content, its type and padding are at most one byte longer than the most content (RFC 8446, 5.4).
        if len <= TAG || len > RECORD + 1 + TAG {
            return Err(invalid("a record of a wrong length"));
        }
        let Some(body) = rest.get(..len) else { return Ok(None) };
        let (sealed, tag) = body.split_at(len - TAG);
        Ok(Some(Self { header, sealed, tag }))
    }

    /// The length of the content with its type and padding.
    fn inner_len(&self) -> usize {
        self.sealed.len()
    }

    fn len(&self) -> usize {
        HEADER + self.sealed.len() + TAG
    }
}

/// One of the two directions of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the other end.
    Receive,
    /// To the other end.
    Send,
}

/// Makes the next key of a direction.
pub type NextKey = Box<dyn FnMut(Direction) -> io::Result<RecordKey> + Send>;

/// The updates of the keys, for both directions of a connection.
pub struct KeyUpdates {
    next: Mutex<NextKey>,
    /// The other end asks for an update of the key that this end sends with.
    wanted: AtomicBool,
}

impl KeyUpdates {
    /// Gets the keys from `next`.
    #[must_use]
    pub fn new(next: NextKey) -> Self {
        Self { next: Mutex::new(next), wanted: AtomicBool::new(false) }
    }

    fn next(&self, direction: Direction) -> io::Result<RecordKey> {
        (self.next.lock())(direction)
    }
}

/// Seals content into a buffer, from which it is sent.
pub struct RecordSealer {
    key: RecordKey,
    updates: Arc<KeyUpdates>,
    /// Records after which the key is updated, as its cipher says (RFC 8446, 5.5).
    pub(crate) limit: u64,
    out: Vec<u8>,
    len: usize,
}

impl RecordSealer {
    /// Seals with `key`, and with others after every `limit` records.
    #[must_use]
    pub fn new(key: RecordKey, limit: u64, updates: Arc<KeyUpdates>) -> Self {
        Self { key, updates, limit, out: vec![0; CHUNK + RECORD + 3 * OVERHEAD + KEY_UPDATE.len()], len: 0 }
    }

    /// Whether there is a chunk to send. Less than that leaves room for a record, and for an update of the key.
    pub(crate) fn is_full(&self) -> bool {
        self.len >= CHUNK
    }

    /// Seals the beginning of `content`. Returns the rest of it.
    ///
    /// # Errors
    /// If there is no room, or no further key.
    pub fn seal<'a>(&mut self, content: &'a [u8]) -> io::Result<&'a [u8]> {
        // The record with the update is one of those that the limit counts.
        if self.updates.wanted.swap(false, Ordering::Relaxed)
            || self.key.number.saturating_add(1) >= self.limit
        {
            self.add(RecordType::Handshake, &KEY_UPDATE)?;
            self.key = self.updates.next(Direction::Send)?;
        }
        let (now, later) = content.split_at(content.len().min(RECORD));
        self.add(RecordType::Content, now)?;
        Ok(later)
    }

    /// Seals the end of this direction.
    pub(crate) fn seal_close(&mut self) -> io::Result<()> {
        self.add(RecordType::Alert, &CLOSE)
    }

    /// Seals a record of any kind.
    ///
    /// # Errors
    /// If there is no room.
    pub fn add(&mut self, kind: RecordType, content: &[u8]) -> io::Result<()> {
        self.len += self.key.seal(kind, content, &mut self.out[self.len..])?;
        Ok(())
    }

    /// The sealed records.
    #[must_use]
    pub fn sealed(&self) -> &[u8] {
        &self.out[..self.len]
    }

    /// Forgets the sealed records.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}

/// Opens received records.
pub struct RecordOpener {
    key: RecordKey,
    updates: Arc<KeyUpdates>,
    incoming: Vec<u8>,
    start: usize,
    end: usize,
    /// The content of a record that did not fit into the caller's buffer, and how much of it was taken.
    rest: Vec<u8>,
    taken: usize,
    /// Records without content since the last one with some.
    idle: u32,
    closed: bool,
}

impl RecordOpener {
    /// Opens records with `key`. `early` is content that was opened before.
    #[must_use]
    pub fn new(key: RecordKey, updates: Arc<KeyUpdates>, early: Vec<u8>) -> Self {
        let incoming = vec![0; CHUNK];
        Self { key, updates, incoming, start: 0, end: 0, rest: early, taken: 0, idle: 0, closed: false }
    }

    /// Whether the other end has closed its direction.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Where received bytes go.
    pub fn room(&mut self) -> &mut [u8] {
        // Less than a record is left when more bytes are wanted.
        self.incoming.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        &mut self.incoming[self.end..]
    }

    /// So many bytes are in the [`RecordOpener::room`] now; none is the end of the stream.
    pub fn received(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.incoming.len());
        self.closed |= bytes == 0;
    }

    /// Opens received records, as far as the content fits.
    ///
    /// # Errors
    /// If a record is damaged, or is none that belongs here.
    pub fn open(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = self.take_rest(into);
        while filled < into.len() && !self.closed {
            let Some(record) = SealedRecord::first(&self.incoming[self.start..self.end])? else { break };
            self.start += record.len();
            let inner = record.inner_len();
            if let Some(room) = into.get_mut(filled..filled + inner) {
                let (kind, len) = self.key.open(&record, room)?;
                if self.is_content(kind, &room[..len])? {
                    filled += len;
                }
            } else {
                let mut opened = std::mem::take(&mut self.rest);
                opened.resize(inner, 0);
                let (kind, len) = self.key.open(&record, &mut opened)?;
                let is_content = self.is_content(kind, &opened[..len])?;
                opened.truncate(if is_content { len } else { 0 });
                (self.rest, self.taken) = (opened, 0);
                filled += self.take_rest(&mut into[filled..]);
            }
        }
        Ok(filled)
    }

    fn take_rest(&mut self, into: &mut [u8]) -> usize {
        let left = self.rest.get(self.taken..).unwrap_or_default();
        let len = left.len().min(into.len());
        into[..len].copy_from_slice(&left[..len]);
        self.taken += len;
        len
    }

    /// Whether a record has content. Obeys it if it has none.
    fn is_content(&mut self, kind: RecordType, message: &[u8]) -> io::Result<bool> {
        if kind == RecordType::Content && !message.is_empty() {
            self.idle = 0;
            return Ok(true);
        }
        self.idle += 1;
        if self.idle > IDLE_RECORDS {
            return Err(invalid("too many records without content"));
        }
        match (kind, message) {
            (RecordType::Content, _) => {}
            (RecordType::Alert, [_, 0]) => self.closed = true,
            (RecordType::Alert, [_, code]) => {
                return Err(invalid(&format!("the other end gives up with alert {code}")));
            }
            (RecordType::Alert, _) => return Err(invalid("an alert of a wrong length")),
            (RecordType::Handshake, message) => self.obey(message)?,
        }
        Ok(false)
    }

    /// Obeys the messages of a record. The two kinds that may come are short, so each is whole in one record.
    fn obey(&mut self, mut messages: &[u8]) -> io::Result<()> {
        while let [kind, a, b, c, rest @ ..] = messages {
            let len = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
            let (message, next) = rest.split_at_checked(len).ok_or_else(|| invalid("a part of a message"))?;
            match (*kind, message) {
                // haul resumes no session, and has no use for tickets.
                (NEW_SESSION_TICKET, _) => {}
                // Nothing may follow with the old key.
                (kind, [wanted @ (0 | 1)]) if kind == KEY_UPDATE[0] && next.is_empty() => {
                    self.key = self.updates.next(Direction::Receive)?;
                    if *wanted == 1 {
                        self.updates.wanted.store(true, Ordering::Relaxed);
                    }
                }
                _ => return Err(invalid("a message that does not belong here")),
            }
            messages = next;
        }
        if messages.is_empty() { Ok(()) } else { Err(invalid("a part of a message")) }
    }
}

#[cfg(test)]
mod tests;
