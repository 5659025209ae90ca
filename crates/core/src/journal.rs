//! The journal of a staged file: which of its slices are durable.
//!
//! Each staged large file has one journal beside it. A record is appended after its slice is synced, so a record never
//! precedes the data, unless the header says that slices were not synced ([`JournalHeader::synced`]). Layout,
//! little-endian:
//!
//! * header, [`HEADER_LEN`] bytes: magic `HAULJNL2`, length of the file (u64), its modification time at the source
//!   (i64 seconds, u32 nanoseconds), its inode at the source (u64), the inode of the staged file (u64), the length
//!   of a slice (u32), the change time at the source (i64 seconds, u32 nanoseconds, which are 0xffffffff if there is
//!   no change time), the boot ID when the journal was written (16 bytes), the key of the staged file (16 bytes),
//!   whether its slices were synced (u32), CRC-32C of all previous bytes;
//! * records of [`RECORD_LEN`] bytes: index of the slice (u32), its BLAKE3 chaining value (32 bytes), CRC-32C of the
//!   CRC of the header and all previous bytes of the record (u32), so that a record of another journal is invalid.
//!
//! Decoding stops at the first invalid record: the slices after a torn or damaged record are sent again, and a damaged
//! journal is never believed.

use crate::digest::{ChainingValue, SLICE_LEN};
use crate::entry::{Identity, Timestamp};

/// The length of the header in bytes.
pub const HEADER_LEN: usize = 100;
/// The length of a record in bytes.
pub const RECORD_LEN: usize = 40;

const MAGIC: &[u8; 8] = b"HAULJNL2";

/// The nanoseconds that stand for an unknown time.
const NONE: u32 = u32::MAX;

/// The header of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalHeader {
    /// The state of the source file that the slices belong to.
    pub identity: Identity,
    /// The inode of the staged file that holds them.
    pub staged_ino: u64,
    /// The boot ID of the machine when the journal was written; zeros if unknown.
    pub boot: [u8; 16],
    /// The secret key that is also stored in the staged file; zeros if the file system cannot store it.
    pub key: [u8; 16],
    /// Whether slices were synced before they were recorded. If not, a crash of the machine may have lost them.
    pub synced: bool,
}

impl JournalHeader {
    /// Encodes the header.
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
        let ctime = self.identity.ctime.unwrap_or(Timestamp { sec: 0, nsec: NONE });
        put(&ctime.sec.to_le_bytes());
        put(&ctime.nsec.to_le_bytes());
        put(&self.boot);
        put(&self.key);
        put(&u32::from(self.synced).to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..HEADER_LEN - 4]);
        bytes[HEADER_LEN - 4..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The checksum of the header, which seeds the checksums of its records.
    #[must_use]
    pub fn seed(&self) -> u32 {
        crc32c::crc32c(&self.encode()[..HEADER_LEN - 4])
    }
}

/// Encodes a record of the journal whose header has this [`JournalHeader::seed`].
#[must_use]
pub fn encode_record(seed: u32, index: u32, value: &ChainingValue) -> [u8; RECORD_LEN] {
    let mut bytes = [0; RECORD_LEN];
    bytes[..4].copy_from_slice(&index.to_le_bytes());
    bytes[4..36].copy_from_slice(&value.0);
    let crc = crc32c::crc32c_append(seed, &bytes[..36]);
    bytes[36..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Decodes the header and all records before the first invalid one. `None` if the header is invalid.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<(JournalHeader, Vec<(u32, ChainingValue)>)> {
    let (head, records) = bytes.split_first_chunk::<HEADER_LEN>()?;
    let u32_at = |at: usize| head[at..].first_chunk().map(|b| u32::from_le_bytes(*b));
    let u64_at = |at: usize| head[at..].first_chunk().map(|b| u64::from_le_bytes(*b));
    let time_at = |at| Some(Timestamp { sec: u64_at(at)?.cast_signed(), nsec: u32_at(at + 8)? });
    let seed = u32_at(HEADER_LEN - 4)?;
    if !head.starts_with(MAGIC)
        || crc32c::crc32c(&head[..HEADER_LEN - 4]) != seed
        || u64::from(u32_at(44)?) != SLICE_LEN
    {
        return None;
    }
    let header = JournalHeader {
        identity: Identity {
            len: u64_at(8)?,
            mtime: time_at(16)?,
            ctime: time_at(48).filter(|time| time.nsec != NONE),
            ino: u64_at(28)?,
        },
        staged_ino: u64_at(36)?,
        boot: *head[60..].first_chunk()?,
        key: *head[76..].first_chunk()?,
        synced: u32_at(92)? == 1,
    };
    // Each header has one encoding: haul did not write other bytes that decode to the same header.
    if header.encode() != *head {
        return None;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (JournalHeader, Vec<u8>) {
        let (mtime, ctime) = (Timestamp { sec: -5, nsec: 123_456_789 }, Timestamp { sec: 9, nsec: 8 });
        let identity = Identity { len: 50_000_000, mtime, ctime: Some(ctime), ino: 42 };
        let header = JournalHeader { identity, staged_ino: 77, boot: [3; 16], key: [4; 16], synced: true };
        let (mut bytes, seed) = (header.encode().to_vec(), header.seed());
        for index in 0..5 {
            bytes.extend(encode_record(seed, index, &ChainingValue([index as u8; 32])));
        }
        (header, bytes)
    }

    #[test]
    fn a_journal_decodes_to_the_encoded_one() {
        let (header, bytes) = sample();
        let (read, records) = decode(&bytes).unwrap();
        assert_eq!(read, header);
        assert_eq!(records.len(), 5);
        assert_eq!(records[3], (3, ChainingValue([3; 32])));
        let identity = Identity { ctime: None, ..header.identity };
        let other = JournalHeader { identity, synced: false, ..header };
        assert_eq!(decode(&other.encode()), Some((other, Vec::new())));
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
