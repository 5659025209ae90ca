//! Records what a run sees, directory by directory.

use std::cmp::Ordering as Order;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_core::{Entry, RelPath};
use serde::{Deserialize, Serialize};

use crate::Index;
use crate::format::{IndexedFolder, MAX_ENTRY, Seen, Stamp};

/// A directory, or an entry seen in one; sorted as in the file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sighting {
    pub(crate) folder: RelPath,
    pub(crate) what: What,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum What {
    /// The directory was recorded completely.
    Whole(IndexedFolder),
    Seen(Seen),
}

impl Sighting {
    fn key(&self) -> (&RelPath, Option<&[u8]>) {
        let name = match &self.what {
            What::Whole(_) => None,
            What::Seen(seen) => Some(&seen.name[..]),
        };
        (&self.folder, name)
    }
}

impl Ord for Sighting {
    fn cmp(&self, other: &Self) -> Order {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Sighting {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Sighting {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Sighting {}

/// A directory that is being listed. On drop it counts if [`Recording::listed`] was called and each name was seen.
pub struct Recording<'a> {
    index: &'a Index,
    path: RelPath,
    stamp: Stamp,
    read: i64,
    hidden: AtomicU64,
    seen: AtomicU64,
    /// The number of names without hidden ones; more than any directory can have until it is known.
    listed: AtomicU64,
}

impl<'a> Recording<'a> {
    pub(crate) fn new(index: &'a Index, path: &RelPath, stamp: Stamp, read: i64) -> Self {
        let (hidden, seen, listed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(u64::MAX));
        Self { index, path: path.clone(), stamp, read, hidden, seen, listed }
    }

    /// Records an entry of the directory.
    pub fn saw(&self, entry: &Entry) {
        if entry.weight() < MAX_ENTRY / 2 {
            self.index.keep(Sighting { folder: self.path.clone(), what: What::Seen(Seen::of(entry)) });
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
            let folder = IndexedFolder { stamp: self.stamp, read: self.read, hidden: *self.hidden.get_mut() };
            self.index.keep(Sighting { folder: std::mem::take(&mut self.path), what: What::Whole(folder) });
        }
    }
}

/// The completely recorded directories, with their entries.
pub(crate) struct Seens<I: Iterator<Item = io::Result<Sighting>>>(pub(crate) std::iter::Peekable<I>);

impl<I: Iterator<Item = io::Result<Sighting>>> Seens<I> {
    /// The next completely recorded directory.
    pub(crate) fn next_folder(&mut self) -> io::Result<Option<(RelPath, IndexedFolder)>> {
        while let Some(sighting) = self.0.next().transpose()? {
            if let What::Whole(folder) = sighting.what {
                return Ok(Some((sighting.folder, folder)));
            }
        }
        Ok(None)
    }

    /// The next entry of this directory.
    pub(crate) fn next_in(&mut self, folder: &RelPath) -> io::Result<Option<Seen>> {
        let here = |found: &io::Result<Sighting>| match found {
            Ok(found) => found.folder == *folder && matches!(found.what, What::Seen(_)),
            Err(_) => true,
        };
        Ok(match self.0.next_if(here).transpose()? {
            Some(Sighting { what: What::Seen(seen), .. }) => Some(seen),
            _ => None,
        })
    }
}
