//! A stream that is stored encrypted: age encrypts chunks of 64 KiB, each of which is authenticated alone.

use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Arc;

use haul_core::{Error, ErrorKind, Result, Side};

use super::at::{StreamAt, load};
use super::blocks::TakeBlockBytes;
use crate::get::GetSettings;

/// Bytes of a chunk, plain and encrypted.
const CHUNK: u64 = 64 << 10;
const SEALED: u64 = CHUNK + 16;

/// Bytes that are decrypted at once: they are in memory twice.
const AT_ONCE: u64 = 2 << 20;

/// The longest header: there are at most 50 recipients.
const MAX_HEADER: u64 = 64 << 10;

/// The nonce behind the header.
const NONCE: usize = 16;

/// Decrypts chunks.
pub(super) struct AgedAt {
    stored: Arc<dyn StreamAt>,
    settings: Arc<GetSettings>,
    /// The header and the nonce.
    head: Vec<u8>,
}

impl AgedAt {
    /// Reads the header.
    ///
    /// # Errors
    /// `Corrupt` if there is none, else the error of reading it.
    pub(super) fn new(stored: Arc<dyn StreamAt>, settings: Arc<GetSettings>) -> Result<Self> {
        let mut head = load(&*stored, 0..MAX_HEADER.min(stored.len()))?;
        let end = memchr::memmem::find(&head, b"\n--- ").and_then(|at| {
            let end = at + 1 + memchr::memchr(b'\n', &head[at + 1..])? + 1 + NONCE;
            (end <= head.len()).then_some(end)
        });
        let Some(end) = end else {
            let cause = "it has no header of age, and is recorded as encrypted";
            return Err(Error::new(ErrorKind::Corrupt, Side::Source, "decrypt", cause).on(stored.name()));
        };
        head.truncate(end);
        Ok(Self { stored, settings, head })
    }

    /// Decrypts a short range.
    fn decrypt(&self, range: Range<u64>, take: &mut TakeBlockBytes<'_>) -> Result<()> {
        let name = self.name();
        let failed = |error: io::Error| {
            Error::new(ErrorKind::Corrupt, Side::Source, "decrypt", error.to_string()).on(&name)
        };
        // The library looks at the end of a stream when it seeks to the first byte of a chunk, so it is given one more.
        let from = range.start - u64::from(range.start > 0 && range.start.is_multiple_of(CHUNK));
        let head = self.head.len() as u64;
        let start = head + from / CHUNK * SEALED;
        let end = (head + range.end.div_ceil(CHUNK) * SEALED).min(self.stored.len());
        let bytes = load(&*self.stored, start..end)?;
        let part = PartOfFile { head: &self.head, start, bytes: &bytes, at: 0 };
        let mut plain = self.settings.keys.decrypt(part, &name, &failed)?;
        plain.seek(SeekFrom::Start(from)).map_err(failed)?;
        let mut buffer = vec![0; CHUNK as usize];
        plain.read_exact(&mut buffer[..(range.start - from) as usize]).map_err(failed)?;
        let mut at = range.start;
        while at < range.end {
            let len = (range.end - at).min(CHUNK) as usize;
            plain.read_exact(&mut buffer[..len]).map_err(failed)?;
            take(Some(&buffer[..len]));
            at += len as u64;
        }
        Ok(())
    }
}

impl StreamAt for AgedAt {
    fn name(&self) -> String {
        self.stored.name()
    }

    fn len(&self) -> u64 {
        let sealed = self.stored.len().saturating_sub(self.head.len() as u64);
        sealed - sealed.div_ceil(SEALED) * 16
    }

    fn read(&self, range: Range<u64>, take: &mut TakeBlockBytes<'_>) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let end = (at + AT_ONCE).min(range.end);
            self.decrypt(at..end, take)?;
            at = end;
        }
        Ok(())
    }

    fn streams(&self) -> u32 {
        self.stored.streams()
    }

    fn came(&self) -> u64 {
        self.stored.came()
    }
}

/// The header of a file, and some bytes of it further on.
struct PartOfFile<'a> {
    head: &'a [u8],
    start: u64,
    bytes: &'a [u8],
    at: u64,
}

impl BufRead for PartOfFile<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if let Some(rest) = self.head.get(self.at as usize..).filter(|rest| !rest.is_empty()) {
            return Ok(rest);
        }
        let at = self.at.checked_sub(self.start).ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(self.bytes.get(at as usize..).unwrap_or_default())
    }

    fn consume(&mut self, len: usize) {
        self.at += len as u64;
    }
}

impl Read for PartOfFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let bytes = self.fill_buf()?;
        let len = bytes.len().min(buffer.len());
        buffer[..len].copy_from_slice(&bytes[..len]);
        self.consume(len);
        Ok(len)
    }
}

impl Seek for PartOfFile<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::Current(by) => self.at.checked_add_signed(by).ok_or(io::ErrorKind::InvalidInput)?,
            SeekFrom::End(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(self.at)
    }
}
