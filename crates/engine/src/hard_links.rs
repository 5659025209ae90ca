//! Files with several names. The first name that the scan finds is copied; the others become hard links to it at the
//! end.

use haul_core::sync::Mutex;
use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use haul_core::{Entry, Error, HardLink, Links, RelPath, Result};
use haul_spool::Spool;

/// The names found so far. A file takes 100 to 200 bytes of memory until all of its names were found; to the end, if
/// symbolic links are followed, which may lead to it any number of times.
#[derive(Default)]
pub(crate) struct HardLinks {
    symlinks: Links,
    /// By device and inode: the first name, and the number of names found.
    first: Mutex<HashMap<(u64, u64), (RelPath, u32)>>,
    further: Mutex<Spool<HardLink>>,
    /// First names that the destination has left as they are, and those that failed: they may be other files there.
    /// Hashes, because any number of files may fail. Two names with one hash cost a copy in place of a link.
    unusable: Mutex<HashSet<u64>>,
    hasher: RandomState,
    /// Further names of these.
    alone: Mutex<Spool<Entry>>,
}

impl HardLinks {
    /// `symlinks`: how the source treats symbolic links.
    pub(crate) fn new(symlinks: Links) -> Self {
        Self { symlinks, ..Self::default() }
    }

    /// Returns the entry if it is to be copied. A further name of a known file is kept for the end instead.
    ///
    /// # Errors
    /// `Io` if the list of links cannot be written.
    pub(crate) fn keep_further_name(&self, entry: Entry) -> Result<Option<Entry>> {
        let Some(to) = self.first_name(&entry) else { return Ok(Some(entry)) };
        self.add(&HardLink { entry: Arc::new(entry), to })?;
        Ok(None)
    }

    /// The first name of the file, if the entry is a further name of a known file.
    pub(crate) fn first_name(&self, entry: &Entry) -> Option<RelPath> {
        if entry.nlink < 2 || entry.is_dir() {
            return None;
        }
        let mut first = self.first.lock();
        match first.entry((entry.dev, entry.ino)) {
            Slot::Vacant(slot) => {
                slot.insert((entry.path.clone(), 1));
                None
            }
            // A list may name the same path twice.
            Slot::Occupied(slot) if slot.get().0 == entry.path => None,
            Slot::Occupied(mut slot) => {
                slot.get_mut().1 += 1;
                let is_last = slot.get().1 >= entry.nlink && !self.symlinks.are_followed();
                Some(if is_last { slot.remove().0 } else { slot.get().0.clone() })
            }
        }
    }

    /// Adds a link to make.
    ///
    /// # Errors
    /// `Io` if the list of links cannot be written.
    pub(crate) fn add(&self, link: &HardLink) -> Result<()> {
        self.further.lock().push(link).map_err(|e| list_error(&e))
    }

    /// The destination has left this path as it is, or its copy failed: no name becomes a link to it.
    pub(crate) fn refuse_links_to(&self, path: &RelPath) {
        self.unusable.lock().insert(self.hasher.hash_one(path));
    }

    /// Keeps the entry of a link to a name that takes no links. `false` if it is another link.
    ///
    /// # Errors
    /// `Io` if the list of links cannot be written.
    pub(crate) fn keep_alone(&self, link: &HardLink) -> Result<bool> {
        if !self.unusable.lock().contains(&self.hasher.hash_one(&link.to)) {
            return Ok(false);
        }
        self.alone.lock().push(&link.entry).map_err(|e| list_error(&e))?;
        Ok(true)
    }

    /// Takes out the entries that are to be copied without the names found before.
    pub(crate) fn take_alone(&self) -> Spool<Entry> {
        std::mem::take(&mut *self.alone.lock())
    }

    /// Takes the links to make out.
    pub(crate) fn take(&self) -> Spool<HardLink> {
        std::mem::take(&mut *self.further.lock())
    }
}

/// The error for a list that cannot be written or read.
pub(crate) fn list_error(error: &std::io::Error) -> Error {
    Error::list("hard links", error)
}
