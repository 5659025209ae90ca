//! The directories and entries that a run saw, in the order of the file.

use std::cmp::Ordering;
use std::io;

use haul_core::RelPath;
use serde::{Deserialize, Serialize};

use crate::format::{IndexedDirectory, SeenEntry};

/// A directory, or an entry seen in one; sorted as in the file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sighting {
    pub(crate) directory: RelPath,
    pub(crate) what: What,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum What {
    /// The directory was recorded completely.
    Whole(IndexedDirectory),
    Seen(SeenEntry),
}

impl Sighting {
    fn key(&self) -> (&RelPath, Option<&[u8]>) {
        let name = match &self.what {
            What::Whole(_) => None,
            What::Seen(seen) => Some(&seen.name[..]),
        };
        (&self.directory, name)
    }
}

impl Ord for Sighting {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Sighting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Sighting {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Sighting {}

/// The completely recorded directories, with their entries.
pub(crate) struct Seens<I: Iterator<Item = io::Result<Sighting>>>(pub(crate) std::iter::Peekable<I>);

impl<I: Iterator<Item = io::Result<Sighting>>> Seens<I> {
    /// The next completely recorded directory.
    pub(crate) fn next_directory(&mut self) -> io::Result<Option<(RelPath, IndexedDirectory)>> {
        while let Some(sighting) = self.0.next().transpose()? {
            if let What::Whole(directory) = sighting.what {
                return Ok(Some((sighting.directory, directory)));
            }
        }
        Ok(None)
    }

    /// The next entry of this directory.
    pub(crate) fn next_in(&mut self, directory: &RelPath) -> io::Result<Option<SeenEntry>> {
        let here = |found: &io::Result<Sighting>| match found {
            Ok(found) => found.directory == *directory && matches!(found.what, What::Seen(_)),
            Err(_) => true,
        };
        Ok(match self.0.next_if(here).transpose()? {
            Some(Sighting { what: What::Seen(seen), .. }) => Some(seen),
            _ => None,
        })
    }
}
