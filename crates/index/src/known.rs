//! The directories that need not be listed again.

use std::io;

use haul_core::{Entry, RelPath};

use crate::stored::{IndexedDir, StoredIndex};

/// A directory with the same names as before.
pub struct KnownDir<'a> {
    pub(crate) stored: &'a StoredIndex,
    pub(crate) found: IndexedDir,
    pub(crate) path: RelPath,
    pub(crate) dev: u64,
}

impl KnownDir<'_> {
    /// The number of names in it that are not part of the source.
    #[must_use]
    pub fn hidden(&self) -> u64 {
        self.found.directory.hidden
    }

    /// Its entries at the time of the listing, without owner names.
    ///
    /// # Errors
    /// The error of reading the file.
    pub fn entries(&self) -> io::Result<impl Iterator<Item = io::Result<Entry>>> {
        let (before, now) = (self.stored.footer.dev, self.dev);
        let entries = self.stored.entries(&self.path, &self.found)?;
        Ok(entries.map(move |entry| {
            let mut entry = entry?;
            entry.dev = if entry.dev == before { now } else { entry.dev };
            Ok(entry)
        }))
    }
}
