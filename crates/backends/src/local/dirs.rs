//! Folders get their own times and modes last, when everything in them is in place.

use std::sync::{Mutex, PoisonError};

use haul_core::{Entry, Error, ErrorKind, Result, Side};
use haul_spool::Spool;
use rustix::io::Errno;

use super::meta::{Metadata, On};
use super::root::Root;

/// Permission bits without which a folder's owner cannot reach what is in it.
const OWNER: u32 = 0o700;

/// The folders of a run, in the order in which they were offered.
#[derive(Default)]
pub(super) struct Dirs {
    spool: Mutex<Spool<Entry>>,
}

impl Dirs {
    /// Remembers the folder's metadata for the end.
    pub(super) fn add(&self, entry: &Entry) -> Result<()> {
        let mut spool = self.spool.lock().unwrap_or_else(PoisonError::into_inner);
        spool.push(entry).map_err(|e| spool_failed(&e))
    }

    /// Sets them all, innermost first: folders that lock their owner out come after all others.
    pub(super) fn finish(&self, root: &Root, metadata: &Metadata) -> Result<()> {
        let spool = std::mem::take(&mut *self.spool.lock().unwrap_or_else(PoisonError::into_inner));
        let mut locking: Vec<Entry> = Vec::new();
        let set = |entry: &Entry| -> Result<()> {
            match root.at(&entry.path).and_then(|at| metadata.set(&On::Name(&at), entry)) {
                // Gone since: nothing was written into it, or somebody removed it.
                Ok(_) | Err(Errno::NOENT) => Ok(()),
                Err(errno) => Err(root.error("set the metadata of the folder", &entry.path, errno)),
            }
        };
        spool.backwards(|entries: Vec<Entry>| -> Result<(), Wrapped> {
            for entry in entries {
                if entry.mode & OWNER == OWNER {
                    set(&entry)?;
                } else {
                    locking.push(entry);
                }
            }
            Ok(())
        })?;
        locking.sort_by_key(|entry| std::cmp::Reverse(entry.path.components().count()));
        locking.iter().try_for_each(set)
    }
}

fn spool_failed(error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, Side::Local, "keep the list of folders", error.to_string())
        .with_hint("haul keeps long lists in TMPDIR; is it full?")
}

/// The spool's errors and ours, in one type.
struct Wrapped(Error);

impl From<std::io::Error> for Wrapped {
    fn from(error: std::io::Error) -> Self {
        Self(spool_failed(&error))
    }
}

impl From<Error> for Wrapped {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl From<Wrapped> for Error {
    fn from(wrapped: Wrapped) -> Self {
        wrapped.0
    }
}
