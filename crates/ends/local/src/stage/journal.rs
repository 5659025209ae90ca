//! The journal beside a staged file, which records its durable slices ([`haul_core::journal`] has the format).

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;

use haul_core::entry::Identity;
use haul_core::journal::{HEADER_LEN, JournalHeader, RECORD_LEN, decode, encode_record};
use haul_core::{ChainingValue, Ops, SLICE_LEN};
use rustix::fs::{Mode, OFlags, Statx};

use super::mark;
use super::names::is_ours;
use crate::path::at::At;
use crate::path::stat;

/// The most bytes to read of a journal: each slice is recorded a few times at most. A stream has no length yet, but
/// its staged file has one.
fn max_len(identity: &Identity, staged: &Statx) -> u64 {
    let slices = identity.len.min(staged.stx_size) / SLICE_LEN + 1;
    HEADER_LEN as u64 + slices * 4 * RECORD_LEN as u64
}

/// The valid content of a journal.
#[derive(Default)]
pub(crate) struct JournalContent {
    /// Slices that were written, with their chaining values.
    pub(crate) slices: Vec<(u32, ChainingValue)>,
    /// The slices were synced before they were recorded.
    pub(crate) synced: bool,
}

/// Reads the journal at `at`, if it belongs to this state of the source and to this staged file, and nobody else can
/// have written it. Slices that were not synced count within the boot in which they were written.
pub(crate) fn load(at: &At, identity: &Identity, staged: &File) -> JournalContent {
    read(at, identity, staged).unwrap_or_default()
}

fn read(at: &At, identity: &Identity, staged: &File) -> Option<JournalContent> {
    let staged_now = ours(staged)?;
    let staged_ino = staged_now.stx_ino;
    let file = File::from(at.open(OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).ok()?);
    ours(&file)?;
    let mut bytes = Vec::new();
    at.dir.ops.one();
    // Slices whose records cannot be read are sent again.
    let _ = file.take(max_len(identity, &staged_now)).read_to_end(&mut bytes);
    let (header, slices) = decode(&bytes)?;
    let key = mark::key_of(staged);
    let wanted = JournalHeader { identity: *identity, staged_ino, key, ..header };
    let counts = header == wanted && (header.synced || mark::is_this_boot(&header.boot));
    counts.then_some(JournalContent { slices, synced: header.synced })
}

/// The metadata of a file, if this user has made it and it has one name.
fn ours(file: &File) -> Option<Statx> {
    stat::statx_file(file).ok().filter(is_ours)
}

/// An open journal.
pub(crate) struct Journal {
    file: File,
    seed: u32,
    ops: Arc<Ops>,
}

impl Journal {
    /// Makes a new journal with the slices that are durable already.
    pub(crate) fn create(
        at: &At,
        header: &JournalHeader,
        known: &[(u32, ChainingValue)],
    ) -> io::Result<Self> {
        let _ = at.remove();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mut file = File::from(at.open(flags, Mode::RUSR | Mode::WUSR)?);
        at.dir.ops.one();
        file.write_all(&header.encode())?;
        let mut journal = Self { file, seed: header.seed(), ops: Arc::clone(&at.dir.ops) };
        journal.append(known)?;
        Ok(journal)
    }

    /// Adds slices. They survive the process at once, and a crash of the machine after [`Journal::sync`].
    pub(crate) fn append(&mut self, slices: &[(u32, ChainingValue)]) -> io::Result<()> {
        let bytes: Vec<u8> =
            slices.iter().flat_map(|(index, value)| encode_record(self.seed, *index, value)).collect();
        self.ops.one();
        self.file.write_all(&bytes)
    }

    /// Makes the journal durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.ops.one();
        self.file.sync_data()
    }
}
