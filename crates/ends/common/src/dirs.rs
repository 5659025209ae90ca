//! Directories get their times and modes last, when all of their entries are in place.

use haul_core::sync::Mutex;

use haul_core::{Entry, Error, Result};
use haul_spool::Spool;

/// The permission bits that the owner of a directory needs to reach its entries.
const OWNER: u32 = 0o700;

/// The directories of a run, in the order of their offers.
#[derive(Default)]
pub struct Dirs {
    spool: Mutex<Spool<Entry>>,
}

impl Dirs {
    /// Remembers the metadata of a directory for the end.
    ///
    /// # Errors
    /// `Io` if the list cannot be written to the disk.
    pub fn add(&self, entry: &Entry) -> Result<()> {
        let mut spool = self.spool.lock();
        spool.push(entry).map_err(|e| spool_failed(&e))
    }

    /// Hands all directories to `set`, some at a time, innermost first. Those that deny access to their owner come
    /// last.
    ///
    /// # Errors
    /// The first error of `set`, or `Io` if the list cannot be read.
    pub fn finish(&self, set: &dyn Fn(&[Entry]) -> Result<()>) -> Result<()> {
        let spool = std::mem::take(&mut *self.spool.lock());
        let mut locking: Vec<Entry> = Vec::new();
        spool.backwards(|entries: Vec<Entry>| -> Result<(), Wrapped> {
            let (open, locked): (Vec<Entry>, Vec<Entry>) =
                entries.into_iter().partition(|entry| entry.mode & OWNER == OWNER);
            locking.extend(locked);
            Ok(set(&open)?)
        })?;
        locking.sort_by_key(|entry| std::cmp::Reverse(entry.path.depth()));
        set(&locking)
    }
}

fn spool_failed(error: &std::io::Error) -> Error {
    Error::list("directories", error)
}

/// An error of the spool or of haul.
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

#[cfg(test)]
mod tests {
    use haul_core::{EntryKind, ErrorKind, RelPath, Side};

    use super::*;

    fn dirs() -> Dirs {
        let dirs = Dirs::default();
        for (path, mode) in [("a", 0o500), ("a/b", 0o755), ("a/b/c", 0o055), ("d", 0o700)] {
            let path = RelPath::new(path.as_bytes()).unwrap();
            dirs.add(&Entry { mode, ..Entry::new(path, EntryKind::Dir, 0) }).unwrap();
        }
        dirs
    }

    #[test]
    fn inner_directories_come_first_and_inaccessible_ones_last() {
        let order = Mutex::new(Vec::new());
        let set = |entries: &[Entry]| {
            order.lock().extend(entries.iter().map(|entry| entry.path.as_bytes().to_vec()));
            Ok(())
        };
        dirs().finish(&set).unwrap();
        assert_eq!(order.into_inner(), [&b"d"[..], b"a/b", b"a/b/c", b"a"]);
    }

    #[test]
    fn an_error_ends_it() {
        let failed = |_: &[Entry]| Err(Error::new(ErrorKind::Io, Side::Destination, "set", "test"));
        assert_eq!(dirs().finish(&failed).unwrap_err().kind(), ErrorKind::Io);
    }
}
