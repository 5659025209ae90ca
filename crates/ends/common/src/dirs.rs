//! Folders get their own times and modes last, when everything in them is in place.

use haul_core::sync::Mutex;

use haul_core::{Entry, Error, Result};
use haul_spool::Spool;

/// Permission bits without which a folder's owner cannot reach what is in it.
const OWNER: u32 = 0o700;

/// The folders of a run, in the order in which they were offered.
#[derive(Default)]
pub struct Dirs {
    spool: Mutex<Spool<Entry>>,
}

impl Dirs {
    /// Remembers the folder's metadata for the end.
    pub fn add(&self, entry: &Entry) -> Result<()> {
        let mut spool = self.spool.lock();
        spool.push(entry).map_err(|e| spool_failed(&e))
    }

    /// Hands them all to `set`, some at a time, innermost first: folders that lock their owner out come after all
    /// others.
    pub fn finish(&self, set: &dyn Fn(&[Entry]) -> Result<()>) -> Result<()> {
        let spool = std::mem::take(&mut *self.spool.lock());
        let mut locking: Vec<Entry> = Vec::new();
        spool.backwards(|entries: Vec<Entry>| -> Result<(), Wrapped> {
            let (open, locked): (Vec<Entry>, Vec<Entry>) =
                entries.into_iter().partition(|entry| entry.mode & OWNER == OWNER);
            locking.extend(locked);
            Ok(set(&open)?)
        })?;
        locking.sort_by_key(|entry| std::cmp::Reverse(entry.path.components().count()));
        set(&locking)
    }
}

fn spool_failed(error: &std::io::Error) -> Error {
    Error::list("folders", error)
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
