//! Entries that cannot be copied yet: the directory in their place is not empty, and they wait until deletion has
//! emptied it; or another program has the file open.
//!
//! In the first case their content is sent and staged first, like that of every file. So nothing is deleted for a file that cannot be
//! read or does not fit.

use haul_core::sync::Mutex;
use std::collections::HashSet;

use crossbeam_channel::Sender;
use haul_core::{Entry, Error, HardLink, RelPath, Result, ScanBatch};
use haul_spool::Spool;

/// The waiting entries. Only their paths are in memory.
#[derive(Default)]
pub(crate) struct Deferred {
    waiting: Mutex<WaitingEntries>,
}

/// The waiting entries, each with the error that made it wait.
#[derive(Default)]
pub(crate) struct WaitingEntries {
    pub(crate) entries: Spool<(Entry, Error)>,
    pub(crate) links: Spool<(HardLink, Error)>,
    pub(crate) paths: HashSet<RelPath>,
}

impl WaitingEntries {
    /// Sends the entries as a scan does.
    ///
    /// # Errors
    /// If the list cannot be read.
    pub(crate) fn send(&self, found: &Sender<ScanBatch>) -> std::io::Result<()> {
        self.entries.forwards(|some: Vec<(Entry, Error)>| -> std::io::Result<()> {
            send(found, some.into_iter().map(|(entry, _)| entry).collect());
            Ok(())
        })
    }
}

/// Sends entries as a scan does.
pub(crate) fn send(found: &Sender<ScanBatch>, entries: Vec<Entry>) {
    // The receivers are gone only if the run has ended.
    let _ended = found.send(ScanBatch { entries, ..ScanBatch::default() });
}

impl Deferred {
    /// Defers an entry.
    ///
    /// # Errors
    /// `Io` if the list cannot be written.
    pub(crate) fn add(&self, entry: &Entry, why: &Error) -> Result<()> {
        let mut waiting = self.waiting.lock();
        if !waiting.paths.insert(entry.path.clone()) {
            return Ok(());
        }
        waiting.entries.push(&(entry.clone(), why.clone())).map_err(|e| list_error(&e))
    }

    /// Defers a hard link.
    ///
    /// # Errors
    /// `Io` if the list cannot be written.
    pub(crate) fn add_link(&self, link: &HardLink, why: &Error) -> Result<()> {
        let mut waiting = self.waiting.lock();
        waiting.paths.insert(link.entry.path.clone());
        waiting.links.push(&(link.clone(), why.clone())).map_err(|e| list_error(&e))
    }

    /// Whether the entry at `path` waits.
    pub(crate) fn contains(&self, path: &RelPath) -> bool {
        self.waiting.lock().paths.contains(path)
    }

    /// The paths of all waiting entries.
    pub(crate) fn paths(&self) -> Vec<RelPath> {
        self.waiting.lock().paths.iter().cloned().collect()
    }

    /// The number of waiting entries.
    pub(crate) fn len(&self) -> usize {
        self.waiting.lock().paths.len()
    }

    /// Takes all waiting entries out.
    pub(crate) fn take(&self) -> WaitingEntries {
        std::mem::take(&mut *self.waiting.lock())
    }
}

/// The error for a list that cannot be written or read.
pub(crate) fn list_error(error: &std::io::Error) -> Error {
    Error::list("deferred entries", error)
}
