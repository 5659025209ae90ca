//! Records the entries that a run sees, directory by directory.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_core::sync::Mutex;
use haul_core::{Entry, RelPath};
use haul_spool::Sorter;

use crate::format::{IndexedDirectory, MAX_ENTRY, SeenEntry, Stamp};
use crate::sighting::{Sighting, What};

/// The sightings of all recordings of a run.
#[derive(Default)]
pub(crate) struct Kept {
    sightings: Mutex<Sorter<Sighting>>,
    /// Why no new file can be written.
    failure: Mutex<Option<io::Error>>,
}

impl Kept {
    fn add(&self, sighting: Sighting) {
        if let Err(error) = self.sightings.lock().push(sighting) {
            self.failure.lock().get_or_insert(error);
        }
    }

    /// Takes all sightings, or the first error of keeping one.
    pub(crate) fn take(&self) -> io::Result<Sorter<Sighting>> {
        match self.failure.lock().take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut *self.sightings.lock())),
        }
    }
}

/// A directory that is being listed. On drop it counts if [`Recording::listed`] was called and each name was seen.
pub struct Recording<'a> {
    kept: &'a Kept,
    path: RelPath,
    stamp: Stamp,
    read: i64,
    hidden: AtomicU64,
    seen: AtomicU64,
    /// The number of names without hidden ones; more than any directory can have until it is known.
    listed: AtomicU64,
}

impl<'a> Recording<'a> {
    pub(crate) fn new(kept: &'a Kept, path: &RelPath, stamp: Stamp, read: i64) -> Self {
        let (hidden, seen, listed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(u64::MAX));
        Self { kept, path: path.clone(), stamp, read, hidden, seen, listed }
    }

    /// Records an entry of the directory.
    pub fn saw(&self, entry: &Entry) {
        if entry.weight() < MAX_ENTRY / 2 {
            self.kept.add(Sighting { directory: self.path.clone(), what: What::Seen(SeenEntry::of(entry)) });
            self.seen.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a name that is not part of the source.
    pub fn hid(&self) {
        self.hidden.fetch_add(1, Ordering::Relaxed);
    }

    /// The listing has ended after so many names, without hidden ones.
    pub fn listed(&self, names: u64) {
        self.listed.store(names, Ordering::Relaxed);
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if *self.seen.get_mut() == *self.listed.get_mut() {
            let directory =
                IndexedDirectory { stamp: self.stamp, read: self.read, hidden: *self.hidden.get_mut() };
            self.kept
                .add(Sighting { directory: std::mem::take(&mut self.path), what: What::Whole(directory) });
        }
    }
}
