//! Which slices of a staged file are durable.
//!
//! One journal stands beside each staged giant file. It is appended to only after the slices that it names were
//! synced, so a record is never ahead of the data. Layout, little-endian:
//!
//! * header, [`HEADER_LEN`] bytes: magic `HAULJNL1`, length of the file (u64), its modification time at the source
//!   (i64 seconds, u32 nanoseconds), its inode at the source (u64), the inode of the staged file (u64), the length
//!   of a slice (u32), CRC-32C of all before;
//! * records of [`RECORD_LEN`] bytes: index of the slice (u32), its BLAKE3 chaining value (32 bytes), CRC-32C of
//!   the header's CRC and all before in the record (u32), so that no record of another journal is taken for one.
//!
//! Reading stops at the first record that does not check out: a torn or damaged journal costs the slices after
//! that point, which are sent again, never correctness.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;

use haul_core::entry::Identity;
use haul_core::{ChainingValue, Ops, SLICE_LEN, Timestamp};
use rustix::fs::{Mode, OFlags};

use super::root::At;

/// Bytes of the header.
pub const HEADER_LEN: usize = 52;
/// Bytes of one record.
pub const RECORD_LEN: usize = 40;

const MAGIC: &[u8; 8] = b"HAULJNL1";

/// What a journal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The state of the source file that the slices are of.
    pub identity: Identity,
    /// The inode of the staged file that holds them.
    pub staged_ino: u64,
}

impl Header {
    /// Its bytes on disk.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(MAGIC);
        put(&self.identity.len.to_le_bytes());
        put(&self.identity.mtime.sec.to_le_bytes());
        put(&self.identity.mtime.nsec.to_le_bytes());
        put(&self.identity.ino.to_le_bytes());
        put(&self.staged_ino.to_le_bytes());
        put(&(SLICE_LEN as u32).to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..HEADER_LEN - 4]);
        bytes[HEADER_LEN - 4..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
}

/// The bytes of one record in the journal whose header ends in `seed`.
#[must_use]
pub fn encode_record(seed: u32, index: u32, value: &ChainingValue) -> [u8; RECORD_LEN] {
    let mut bytes = [0; RECORD_LEN];
    bytes[..4].copy_from_slice(&index.to_le_bytes());
    bytes[4..36].copy_from_slice(&value.0);
    let crc = crc32c::crc32c_append(seed, &bytes[..36]);
    bytes[36..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Reads a journal as far as it is whole. `None` if not even the header is.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<(Header, Vec<(u32, ChainingValue)>)> {
    let (head, records) = bytes.split_first_chunk::<HEADER_LEN>()?;
    let u32_at = |at: usize| head[at..].first_chunk().map(|b| u32::from_le_bytes(*b));
    let u64_at = |at: usize| head[at..].first_chunk().map(|b| u64::from_le_bytes(*b));
    let seed = u32_at(HEADER_LEN - 4)?;
    if !head.starts_with(MAGIC)
        || crc32c::crc32c(&head[..HEADER_LEN - 4]) != seed
        || u64::from(u32_at(44)?) != SLICE_LEN
    {
        return None;
    }
    let header = Header {
        identity: Identity {
            len: u64_at(8)?,
            mtime: Timestamp { sec: u64_at(16)?.cast_signed(), nsec: u32_at(24)? },
            ino: u64_at(28)?,
        },
        staged_ino: u64_at(36)?,
    };
    let mut found = Vec::new();
    for record in records.chunks_exact(RECORD_LEN) {
        let (Some(index), Some(value)) = (record.first_chunk(), record[4..].first_chunk()) else { break };
        let (index, value) = (u32::from_le_bytes(*index), ChainingValue(*value));
        if record != encode_record(seed, index, &value) {
            break;
        }
        found.push((index, value));
    }
    Some((header, found))
}

/// The largest journal that is read: one record for each slice of the largest file a file system holds would be
/// more, but a journal grows by no more than each slice a few times.
fn max_len(identity: &Identity) -> u64 {
    let slices = identity.len / SLICE_LEN + 1;
    HEADER_LEN as u64 + slices * 4 * RECORD_LEN as u64
}

/// Reads the journal at `at` if it is about `identity` and about the staged file with inode `staged_ino`.
pub(super) fn load(at: &At, identity: &Identity, staged_ino: u64) -> Vec<(u32, ChainingValue)> {
    let Ok(file) = at.open(OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()) else { return Vec::new() };
    let mut bytes = Vec::new();
    at.dir.ops.one();
    // What cannot be read is sent again.
    let _ = File::from(file).take(max_len(identity)).read_to_end(&mut bytes);
    match decode(&bytes) {
        Some((header, records)) if header == (Header { identity: *identity, staged_ino }) => records,
        _ => Vec::new(),
    }
}

/// A journal that is being written.
pub(super) struct Journal {
    file: File,
    seed: u32,
    ops: Arc<Ops>,
}

impl Journal {
    /// Begins a journal anew, with the slices that are durable already.
    pub(super) fn create(at: &At, header: &Header, known: &[(u32, ChainingValue)]) -> io::Result<Self> {
        let _ = at.unlink(rustix::fs::AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mut file = File::from(at.open(flags, Mode::RUSR | Mode::WUSR)?);
        let head = header.encode();
        let seed = crc32c::crc32c(&head[..HEADER_LEN - 4]);
        at.dir.ops.one();
        file.write_all(&head)?;
        let mut journal = Self { file, seed, ops: Arc::clone(&at.dir.ops) };
        journal.append(known)?;
        Ok(journal)
    }

    /// Adds slices; they count once [`Journal::sync`] has returned, or the process alone has died.
    pub(super) fn append(&mut self, slices: &[(u32, ChainingValue)]) -> io::Result<()> {
        let bytes: Vec<u8> =
            slices.iter().flat_map(|(index, value)| encode_record(self.seed, *index, value)).collect();
        self.ops.one();
        self.file.write_all(&bytes)
    }

    /// Makes it durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.ops.one();
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Header, Vec<u8>) {
        let identity = Identity { len: 50_000_000, mtime: Timestamp { sec: -5, nsec: 123_456_789 }, ino: 42 };
        let header = Header { identity, staged_ino: 77 };
        let head = header.encode();
        let seed = crc32c::crc32c(&head[..HEADER_LEN - 4]);
        let mut bytes = head.to_vec();
        for index in 0..5 {
            bytes.extend(encode_record(seed, index, &ChainingValue([index as u8; 32])));
        }
        (header, bytes)
    }

    #[test]
    fn reads_back_what_was_written() {
        let (header, bytes) = sample();
        let (read, records) = decode(&bytes).unwrap();
        assert_eq!(read, header);
        assert_eq!(records.len(), 5);
        assert_eq!(records[3], (3, ChainingValue([3; 32])));
    }

    #[test]
    fn a_torn_or_damaged_tail_is_cut() {
        let (_, bytes) = sample();
        for end in 0..bytes.len() {
            let whole = end.checked_sub(HEADER_LEN).map(|n| n / RECORD_LEN);
            assert_eq!(decode(&bytes[..end]).map(|(_, r)| r.len()), whole, "cut at {end}");
        }
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            let left = at.checked_sub(HEADER_LEN).map(|n| n / RECORD_LEN);
            assert_eq!(decode(&bad).map(|(_, r)| r.len()), left, "flipped at {at}");
        }
    }
}
