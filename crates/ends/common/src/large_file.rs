//! Files of several slices while they are staged at a server: which slices are there, and their journals.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use haul_core::journal::JournalHeader;
use haul_core::sync::{Condvar, Mutex, MutexGuard};
use haul_core::{ChainingValue, Digest, Entry, Error, ErrorKind, FileTree, RelPath, Result, Side};

type SharedLargeFile<P, H, M> = Arc<LargeFile<P, H, M>>;

/// The large files that a sink stages, by the paths of their entries.
pub struct LargeFiles<P, H, M>(Mutex<HashMap<RelPath, SharedLargeFile<P, H, M>>>);

impl<P, H, M> Default for LargeFiles<P, H, M> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<P: Clone, H, M> LargeFiles<P, H, M> {
    /// The file at a path.
    pub fn get(&self, path: &RelPath) -> Option<SharedLargeFile<P, H, M>> {
        self.0.lock().get(path).cloned()
    }

    /// The file of this very entry.
    pub fn of(&self, entry: &Entry) -> Option<SharedLargeFile<P, H, M>> {
        self.get(&entry.path).filter(|large| large.entry().identity() == entry.identity())
    }

    /// Adds a file.
    pub fn put(&self, large: LargeFile<P, H, M>) {
        self.0.lock().insert(large.entry().path.clone(), Arc::new(large));
    }

    /// Takes the file at a path out.
    pub fn take(&self, path: &RelPath) -> Option<SharedLargeFile<P, H, M>> {
        self.0.lock().remove(path)
    }

    /// Takes all files out.
    pub fn take_all(&self) -> Vec<SharedLargeFile<P, H, M>> {
        self.0.lock().drain().map(|(_, large)| large).collect()
    }

    /// The paths of all staged files and journals.
    pub fn staged(&self) -> Vec<P> {
        self.0.lock().values().flat_map(|large| [large.part.clone(), large.journal.clone()]).collect()
    }
}

/// A large file that is being staged. `P` is a path at the server, `H` an open journal, `M` how the file is made.
pub struct LargeFile<P, H, M> {
    /// The entry that it was offered with; of a stream, one that is growing.
    offered: Arc<Entry>,
    /// The entry of a stream that has come to its end.
    end: OnceLock<Arc<Entry>>,
    /// How it is made.
    pub making: M,
    /// The path of its staged file.
    pub part: P,
    /// The path of its journal.
    pub journal: P,
    progress: Mutex<LargeFileProgress<H>>,
    /// Signals that the journal is not busy any more.
    pub opened: Condvar,
    /// Its digest, once it was renamed into place.
    pub ended: OnceLock<Digest>,
}

/// How far a large file is.
pub struct LargeFileProgress<H> {
    /// The proofs of the slices that are there.
    pub proof: FileTree,
    /// Of a stream: the slices that its journal had, until they are written or are the same.
    pub found: HashMap<u32, ChainingValue>,
    /// Whether the journal names them.
    pub records_found: bool,
    /// Durable slices, in the order of the journal.
    pub records: Vec<(u32, ChainingValue)>,
    /// How many of them were sent to the journal.
    pub recorded: usize,
    /// The journal.
    pub journal: ServerJournal<H>,
    /// A thread renames the file into place.
    pub finishing: bool,
    /// Whether the staged file was created.
    pub made: bool,
}

/// The journal at the server.
pub enum ServerJournal<H> {
    /// It is closed, or there is none.
    Closed,
    /// A thread opens or writes it.
    Busy,
    /// It is open.
    Open(H),
}

impl<H> LargeFileProgress<H> {
    /// Whether a thread opens or writes the journal.
    pub fn is_journal_busy(&self) -> bool {
        matches!(self.journal, ServerJournal::Busy)
    }
}

impl<P, H, M> LargeFile<P, H, M> {
    /// With the `known` slices of an interrupted run.
    pub fn new(
        entry: &Arc<Entry>,
        (part, journal): (P, P),
        making: M,
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
        let progress = LargeFileProgress {
            proof,
            records_found: !found.is_empty(),
            found,
            records: known.to_vec(),
            recorded: 0,
            journal: ServerJournal::Closed,
            finishing: false,
            made: !known.is_empty(),
        };
        Self {
            offered: Arc::clone(entry),
            end: OnceLock::new(),
            making,
            part,
            journal,
            progress: Mutex::new(progress),
            opened: Condvar::new(),
            ended: OnceLock::new(),
        }
    }

    /// Its entry. That of a stream has the true length as soon as that is known.
    pub fn entry(&self) -> &Arc<Entry> {
        self.end.get().unwrap_or(&self.offered)
    }

    /// The entry of a write, which may be the first one with the length of a stream.
    ///
    /// # Errors
    /// `Protocol` if the stream has another length.
    pub fn end_at(&self, entry: &Arc<Entry>) -> Result<()> {
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

    /// The slices that are there, as ranges: those of a stream that can be compared, too.
    pub fn resumable(&self) -> Vec<Range<u32>> {
        let progress = self.lock();
        let mut known = progress.proof.clone();
        progress.found.iter().for_each(|(index, value)| known.set(*index, *value));
        known.resumable()
    }

    /// How far it is.
    pub fn lock(&self) -> MutexGuard<'_, LargeFileProgress<H>> {
        self.progress.lock()
    }

    /// The header of its journal. A server has neither boot ids, nor inodes, nor a secret place for a key.
    pub fn header(&self, synced: bool) -> JournalHeader {
        let (boot, key) = ([0; 16], [0; 16]);
        JournalHeader { identity: self.offered.identity(), staged_ino: 0, boot, key, synced }
    }
}
