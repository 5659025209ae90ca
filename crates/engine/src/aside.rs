//! Entries whose place is taken by a folder with something in it: they wait until that has been removed.
//!
//! Content is sent and staged first, as for every entry, and only what then cannot get its name waits. So nothing is
//! removed for the sake of a file that cannot be read or does not fit.

use haul_core::sync::Mutex;
use std::collections::HashSet;

use haul_core::{Entry, Error, ErrorKind, HardLink, RelPath, Result};
use haul_spool::Spool;

use crate::copy::Run;

/// What waits. In memory are the paths alone.
#[derive(Default)]
pub(crate) struct Aside {
    waiting: Mutex<Waiting>,
}

/// What waits, with the reason.
#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) entries: Spool<(Entry, Error)>,
    pub(crate) links: Spool<(HardLink, Error)>,
    pub(crate) paths: HashSet<RelPath>,
}

impl Aside {
    /// An entry waits, because of this error.
    pub(crate) fn put(&self, entry: &Entry, why: &Error) -> Result<()> {
        let mut waiting = self.waiting.lock();
        if !waiting.paths.insert(entry.path.clone()) {
            return Ok(());
        }
        waiting.entries.push(&(entry.clone(), why.clone())).map_err(|e| failed(&e))
    }

    /// A further name of a file waits, because of this error.
    pub(crate) fn put_link(&self, link: &HardLink, why: &Error) -> Result<()> {
        let mut waiting = self.waiting.lock();
        waiting.paths.insert(link.entry.path.clone());
        waiting.links.push(&(link.clone(), why.clone())).map_err(|e| failed(&e))
    }

    /// Whether the entry at `path` waits.
    pub(crate) fn holds(&self, path: &RelPath) -> bool {
        self.waiting.lock().paths.contains(path)
    }

    /// The paths of all that waits.
    pub(crate) fn paths(&self) -> Vec<RelPath> {
        self.waiting.lock().paths.iter().cloned().collect()
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.lock().paths.len()
    }

    /// All that waits; nothing does after that.
    pub(crate) fn take(&self) -> Waiting {
        std::mem::take(&mut *self.waiting.lock())
    }
}

impl Run<'_> {
    /// Whether the entry is to wait until the folder in its place is empty. Then it is neither done nor failed.
    pub(crate) fn sets_aside(&self, entry: &Entry, error: &Error) -> bool {
        let Some(aside) = self.aside.as_ref().filter(|_| error.kind() == ErrorKind::NotEmpty) else {
            return false;
        };
        if let Err(error) = aside.put(entry, error) {
            self.abort(error);
        }
        true
    }
}

pub(crate) fn failed(error: &std::io::Error) -> Error {
    Error::list("what waits", error)
}
