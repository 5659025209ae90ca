//! The files that were queued and are neither committed nor failed.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

use haul_core::sync::Mutex;
use haul_core::{Changes, RelPath};

/// Counts open files. Large files are also known by name, because several outcomes can end one.
#[derive(Default)]
pub(crate) struct OpenFiles {
    count: AtomicU64,
    large: Mutex<HashSet<RelPath>>,
    /// Open files that replace an entry, and how it differs.
    replacing: Mutex<HashMap<RelPath, Changes>>,
}

impl OpenFiles {
    /// Counts one more open file.
    pub(crate) fn add(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    /// One open file is committed or failed.
    pub(crate) fn remove(&self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
    }

    /// The number of open files.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Remembers a large file that is about to be queued. `false` if it is open already: a list may name it twice.
    pub(crate) fn add_large(&self, path: &RelPath) -> bool {
        self.large.lock().insert(path.clone())
    }

    /// Forgets a large file. `false` if it was not open any more.
    pub(crate) fn remove_large(&self, path: &RelPath) -> bool {
        self.large.lock().remove(path)
    }

    /// The open large files.
    pub(crate) fn large(&self) -> Vec<RelPath> {
        self.large.lock().iter().cloned().collect()
    }

    /// Remembers how the file differs from the entry that it replaces, for the event of its commit.
    pub(crate) fn set_changes(&self, path: &RelPath, changes: Changes) {
        self.replacing.lock().insert(path.clone(), changes);
    }

    /// How the file differed from the entry that it replaced; forgets it.
    pub(crate) fn take_changes(&self, path: &RelPath) -> Changes {
        self.replacing.lock().remove(path).unwrap_or(Changes::NEW)
    }
}
