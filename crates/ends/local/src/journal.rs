//! Which slices of a staged file are durable, in a journal beside it ([`haul_core::journal`] has its form).

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;

use haul_core::entry::Identity;
use haul_core::journal::{HEADER_LEN, Header, RECORD_LEN, decode, encode_record};
use haul_core::{ChainingValue, Ops, SLICE_LEN};
use rustix::fs::{Mode, OFlags, Statx};

use super::root::At;
use super::{mark, stage, stat};

/// The largest journal that is read: one record for each slice of the largest file a file system holds would be
/// more, but a journal grows by no more than each slice a few times.
fn max_len(identity: &Identity) -> u64 {
    let slices = identity.len / SLICE_LEN + 1;
    HEADER_LEN as u64 + slices * 4 * RECORD_LEN as u64
}

/// What a journal says that counts.
#[derive(Default)]
pub(super) struct Found {
    /// Slices that were written, and their proofs.
    pub(super) slices: Vec<(u32, ChainingValue)>,
    /// Whether they were synced before they were recorded.
    pub(super) synced: bool,
}

/// Reads the journal at `at`, if it is about this state of the source and about this staged file, and nobody else can
/// have written it. Slices that were not synced count within the boot in which they were written.
pub(super) fn load(at: &At, identity: &Identity, staged: &File) -> Found {
    read(at, identity, staged).unwrap_or_default()
}

fn read(at: &At, identity: &Identity, staged: &File) -> Option<Found> {
    let staged_ino = ours(staged)?.stx_ino;
    let file = File::from(at.open(OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).ok()?);
    ours(&file)?;
    let mut bytes = Vec::new();
    at.dir.ops.one();
    // What cannot be read is sent again.
    let _ = file.take(max_len(identity)).read_to_end(&mut bytes);
    let (header, slices) = decode(&bytes)?;
    let key = mark::key_of(staged);
    let wanted = Header { identity: *identity, staged_ino, key, ..header };
    let counts = header == wanted && (header.synced || mark::is_this_boot(&header.boot));
    counts.then_some(Found { slices, synced: header.synced })
}

/// What is known of a file, if this user has made it and it has no other name.
fn ours(file: &File) -> Option<Statx> {
    stat::statx_file(file).ok().filter(stage::is_ours)
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
