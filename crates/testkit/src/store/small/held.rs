//! The data of a store: content, objects, uploads.

use haul_core::digest::hex;
use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crc_fast::{CrcAlgorithm, checksum_combine};
use md5::{Digest, Md5};

use super::habits::Habits;

/// All but the last part have so many bytes at least.
const LEAST_PART: u64 = 5 << 20;

/// Content that came, checked and perhaps kept.
#[derive(Clone, Default)]
pub(super) struct ReceivedContent {
    pub(super) len: u64,
    pub(super) crc64: u64,
    pub(super) md5: [u8; 16],
    pub(super) bytes: Option<Arc<Vec<u8>>>,
}

impl ReceivedContent {
    /// Reads `len` bytes; takes their MD5 only where it is asked for, as that is slower than all else.
    pub(super) fn read(from: &mut impl BufRead, len: u64, keep: bool, with_md5: bool) -> io::Result<Self> {
        let (mut crc, mut md5) = (crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme), Md5::new());
        let mut bytes = Vec::new();
        let mut left = len;
        while left > 0 {
            let some = from.fill_buf()?;
            let some = &some[..some.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            if some.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            crc.update(some);
            if with_md5 {
                md5.update(some);
            }
            if keep {
                bytes.extend_from_slice(some);
            }
            let taken = some.len();
            left -= taken as u64;
            from.consume(taken);
        }
        Ok(Self {
            len,
            crc64: crc.finalize(),
            md5: md5.finalize().into(),
            bytes: keep.then(|| Arc::new(bytes)),
        })
    }

    /// Some bytes.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut from = bytes;
        Self::read(&mut from, bytes.len() as u64, true, true).expect("memory can be read")
    }

    /// Its ETag: its MD5, or its CRC-64 in a store without MD5s.
    pub(super) fn etag(&self, habits: Habits) -> String {
        if habits.md5 { hex(&self.md5) } else { hex(&u128::from(self.crc64).to_be_bytes()) }
    }
}

/// An object.
pub(super) struct HeldObject {
    pub(super) content: ReceivedContent,
    /// The digits of its mark, if it was made of parts.
    pub(super) made: Option<String>,
    pub(super) parts: usize,
    /// Its content type and its user metadata.
    pub(super) headers: Vec<(String, String)>,
}

impl HeldObject {
    /// One that came in one request.
    pub(super) fn whole(content: ReceivedContent, headers: Vec<(String, String)>) -> Self {
        Self { content, made: None, parts: 0, headers }
    }

    pub(super) fn etag(&self, habits: Habits) -> String {
        self.made.clone().unwrap_or_else(|| self.content.etag(habits))
    }
}

/// An upload in parts.
pub(super) struct HeldUpload {
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) parts: BTreeMap<u32, ReceivedContent>,
}

impl HeldUpload {
    /// The object of these parts, given with their ETags; or the error code of the store.
    pub(super) fn complete(
        &self,
        parts: &[(u32, String)],
        habits: Habits,
    ) -> Result<HeldObject, &'static str> {
        if parts.is_empty() || !parts.is_sorted_by(|a, b| a.0 < b.0) {
            return Err("InvalidPartOrder");
        }
        let (mut whole, mut marks) = (ReceivedContent::default(), Md5::new());
        let mut bytes = Some(Vec::new());
        for (at, (number, etag)) in parts.iter().enumerate() {
            let part = self.parts.get(number).ok_or("InvalidPart")?;
            if part.etag(habits) != *etag {
                return Err("InvalidPart");
            }
            if part.len < LEAST_PART && at + 1 < parts.len() {
                return Err("EntityTooSmall");
            }
            whole.crc64 = checksum_combine(CrcAlgorithm::Crc64Nvme, whole.crc64, part.crc64, part.len);
            whole.len += part.len;
            marks.update(part.md5);
            match (&mut bytes, &part.bytes) {
                (Some(bytes), Some(part)) => bytes.extend_from_slice(part),
                (bytes, _) => *bytes = None,
            }
        }
        whole.bytes = bytes.map(Arc::new);
        let digits = if habits.md5 { hex(&marks.finalize()) } else { whole.etag(habits) };
        let made = Some(format!("{digits}-{}", parts.len()));
        Ok(HeldObject { content: whole, made, parts: parts.len(), headers: self.headers.clone() })
    }
}

/// A CRC-64 as headers carry it.
pub(super) fn crc64_text(crc64: u64) -> String {
    STANDARD.encode(crc64.to_be_bytes())
}

/// An MD5 as headers carry it.
pub(super) fn md5_text(md5: [u8; 16]) -> String {
    STANDARD.encode(md5)
}
