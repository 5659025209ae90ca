//! A file of several slices while it is staged: which slices are there, and its journal.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use haul_core::journal::Header;
use haul_core::staging::{JOURNAL, PART, staging_name};
use haul_core::sync::{Mutex, MutexGuard};
use haul_core::{ChainingValue, Digest, Entry, Error, ErrorKind, FileTree, Result, Side};

use super::tree::Tree;

/// A large file that is being staged.
pub(super) struct LargeFile {
    /// The entry that it was offered with; of a stream, one that is growing.
    offered: Arc<Entry>,
    /// The entry of a stream that has come to its end.
    end: OnceLock<Arc<Entry>>,
    /// Whether it replaces a file.
    pub(super) replaces: bool,
    /// The path on the share of its staged file.
    pub(super) part: String,
    /// The path on the share of its journal.
    pub(super) journal: String,
    progress: Mutex<Progress>,
    /// Its digest, once it was renamed into place.
    pub(super) ended: OnceLock<Digest>,
}

pub(super) struct Progress {
    /// The proofs of the slices that are there.
    pub(super) proof: FileTree,
    /// Durable slices, in the order of the journal.
    pub(super) records: Vec<(u32, ChainingValue)>,
    /// How many of them are in the journal.
    pub(super) recorded: usize,
    /// A thread writes the journal.
    pub(super) recording: bool,
    /// A thread renames the file into place.
    pub(super) finishing: bool,
    /// Whether the staged file was created.
    pub(super) made: bool,
}

impl LargeFile {
    pub(super) fn new(
        tree: &Tree,
        entry: &Arc<Entry>,
        replaces: bool,
        known: &[(u32, ChainingValue)],
    ) -> Result<Self> {
        let mut proof = FileTree::new(entry.len);
        known.iter().for_each(|(index, value)| proof.set(*index, *value));
        let progress = Progress {
            proof,
            records: known.to_vec(),
            recorded: known.len(),
            recording: false,
            finishing: false,
            made: !known.is_empty(),
        };
        let name = tree.name_of(&entry.path);
        Ok(Self {
            offered: Arc::clone(entry),
            end: OnceLock::new(),
            replaces,
            part: tree.beside(&entry.path, &staging_name(name, PART))?,
            journal: tree.beside(&entry.path, &staging_name(name, JOURNAL))?,
            progress: Mutex::new(progress),
            ended: OnceLock::new(),
        })
    }

    /// Its entry. That of a stream has the true length as soon as that is known.
    pub(super) fn entry(&self) -> &Arc<Entry> {
        self.end.get().unwrap_or(&self.offered)
    }

    /// The entry of a write, which may be the first one with the length of a stream.
    ///
    /// # Errors
    /// `Protocol` if the stream has another length.
    pub(super) fn end_at(&self, entry: &Arc<Entry>) -> Result<()> {
        if !self.offered.is_growing() || entry.is_growing() {
            return Ok(());
        }
        let mut progress = self.lock();
        if self.end.set(Arc::clone(entry)).is_ok() {
            progress.proof.end_at(entry.len);
        } else if self.entry().len != entry.len {
            let error = Error::new(ErrorKind::Protocol, Side::Destination, "write", "it has two lengths");
            return Err(error.on(entry.path.as_bytes()));
        }
        Ok(())
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock()
    }

    /// The slices that are there, as ranges.
    pub(super) fn resumable(&self) -> Vec<Range<u32>> {
        self.lock().proof.resumable()
    }

    /// The header of its journal. A share has neither boot ids nor a secret place for a key.
    pub(super) fn header(&self, synced: bool) -> Header {
        let (boot, key) = ([0; 16], [0; 16]);
        Header { identity: self.offered.identity(), staged_ino: 0, boot, key, synced }
    }
}
