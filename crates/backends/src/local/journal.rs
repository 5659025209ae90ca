//! Which slices of a staged file are durable, in a journal beside it ([`haul_core::journal`] has its form).

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;

use haul_core::entry::Identity;
use haul_core::journal::{HEADER_LEN, Header, RECORD_LEN, decode, encode_record};
use haul_core::{ChainingValue, Ops, SLICE_LEN};
use rustix::fs::{Mode, OFlags};

use super::root::At;

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
        at.dir.ops.one();
        file.write_all(&header.encode())?;
        let mut journal = Self { file, seed: header.seed(), ops: Arc::clone(&at.dir.ops) };
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
