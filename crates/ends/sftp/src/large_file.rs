//! A file of several slices while it is staged: which slices are there, and its journal.

use haul_core::sync::{Condvar, Mutex, MutexGuard};
use std::sync::{Arc, OnceLock};

use haul_core::journal::Header;
use haul_core::staging::{JOURNAL, PART, staging_name};
use haul_core::{ChainingValue, Digest, Entry, FileTree};

use super::conn::Conn;
use super::tree::Tree;

/// A large file that is being staged.
pub(super) struct LargeFile {
    pub(super) entry: Arc<Entry>,
    /// The mode with which the staged file is created.
    pub(super) first_mode: u32,
    part: Vec<u8>,
    journal: Vec<u8>,
    progress: Mutex<Progress>,
    /// Signals that the journal was opened, or could not be.
    pub(super) opened: Condvar,
    /// Its digest, once it was renamed into place.
    pub(super) ended: OnceLock<Digest>,
}

pub(super) struct Progress {
    /// The proofs of the slices that are there.
    pub(super) proof: FileTree,
    /// Durable slices, in the order of the journal.
    pub(super) records: Vec<(u32, ChainingValue)>,
    /// How many of them were sent to the open journal.
    pub(super) recorded: usize,
    pub(super) journal: Journal,
    /// A thread renames the file into place.
    pub(super) finishing: bool,
    /// Whether the staged file was created.
    pub(super) made: bool,
}

/// The journal at the server.
pub(super) enum Journal {
    Closed,
    /// A thread opens it.
    Opening,
    /// On this connection, by this handle.
    Open(Arc<Conn>, Vec<u8>),
}

impl LargeFile {
    pub(super) fn new(
        tree: &Tree,
        entry: &Arc<Entry>,
        first_mode: u32,
        known: &[(u32, ChainingValue)],
    ) -> Self {
        let mut proof = FileTree::new(entry.len);
        known.iter().for_each(|(index, value)| proof.set(*index, *value));
        let progress = Progress {
            proof,
            records: known.to_vec(),
            recorded: 0,
            journal: Journal::Closed,
            finishing: false,
            made: !known.is_empty(),
        };
        let name = tree.name_of(&entry.path);
        Self {
            entry: entry.clone(),
            first_mode,
            part: tree.beside(&entry.path, &staging_name(name, PART)),
            journal: tree.beside(&entry.path, &staging_name(name, JOURNAL)),
            progress: Mutex::new(progress),
            opened: Condvar::new(),
            ended: OnceLock::new(),
        }
    }

    /// The path of its staged file.
    pub(super) fn part(&self) -> &[u8] {
        &self.part
    }

    /// The path of its journal.
    pub(super) fn journal(&self) -> &[u8] {
        &self.journal
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock()
    }

    /// The header of its journal. SFTP has neither boot ids nor inode attributes.
    pub(super) fn header(&self, synced: bool) -> Header {
        let (boot, key) = ([0; 16], [0; 16]);
        Header { identity: self.entry.identity(), staged_ino: 0, boot, key, synced }
    }
}
