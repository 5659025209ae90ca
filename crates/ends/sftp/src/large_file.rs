//! A file of several slices while it is staged: which slices are there, and its journal.

use haul_core::sync::{Condvar, Mutex, MutexGuard};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use haul_core::journal::Header;
use haul_core::staging::{JOURNAL, PART, staging_name};
use haul_core::{ChainingValue, Digest, Entry, Error, ErrorKind, FileTree, Result, Side};

use super::conn::Conn;
use super::tree::Tree;

/// A large file that is being staged.
pub(super) struct LargeFile {
    /// The entry that it was offered with; of a stream, one that is growing.
    offered: Arc<Entry>,
    /// The entry of a stream, once its length is known.
    end: OnceLock<Arc<Entry>>,
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
    /// Of a stream: the slices that its journal had, until they are written or are the same.
    pub(super) found: HashMap<u32, ChainingValue>,
    /// Whether the journal names them.
    pub(super) records_found: bool,
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
        let (mut proof, mut found) = (FileTree::new(entry.len), HashMap::new());
        for (index, value) in known {
            if entry.is_stream() {
                found.insert(*index, *value);
            } else {
                proof.set(*index, *value);
            }
        }
        let progress = Progress {
            proof,
            records_found: !found.is_empty(),
            found,
            records: known.to_vec(),
            recorded: 0,
            journal: Journal::Closed,
            finishing: false,
            made: !known.is_empty(),
        };
        let name = tree.name_of(&entry.path);
        Self {
            offered: entry.clone(),
            end: OnceLock::new(),
            first_mode,
            part: tree.beside(&entry.path, &staging_name(name, PART)),
            journal: tree.beside(&entry.path, &staging_name(name, JOURNAL)),
            progress: Mutex::new(progress),
            opened: Condvar::new(),
            ended: OnceLock::new(),
        }
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
        match self.end.get() {
            Some(end) if end.len == entry.len => {}
            Some(_) => {
                let error = Error::new(ErrorKind::Protocol, Side::Destination, "write", "it has two lengths");
                return Err(error.on(entry.path.as_bytes()));
            }
            None => {
                progress.proof.end_at(entry.len);
                let _set_once = self.end.set(entry.clone());
            }
        }
        Ok(())
    }

    /// The slices that are there, as ranges: those of a stream that can be compared, too.
    pub(super) fn resumable(&self) -> Vec<Range<u32>> {
        let progress = self.lock();
        let mut known = progress.proof.clone();
        progress.found.iter().for_each(|(index, value)| known.set(*index, *value));
        known.resumable()
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
        Header { identity: self.offered.identity(), staged_ino: 0, boot, key, synced }
    }
}
