//! The entries that a copy has brought to the destination, or found there, for a run that removes them at the source.

use std::collections::HashSet;

use haul_core::sync::Mutex;
use haul_core::{Entry, Error, RelPath, Result};
use haul_spool::Spool;
use serde::{Deserialize, Serialize};

/// How the destination got an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ConfirmedBy {
    /// This run sent or made it.
    Sent,
    /// The destination had it, and the content was compared.
    Compared,
    /// The destination says that it had the entry. Its content is compared before the entry is removed at the source.
    Claimed,
}

/// An entry of the source, without its extended attributes and the names of its owner and group, which do not show
/// whether it has changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Confirmed {
    pub(crate) entry: Entry,
    pub(crate) proof: ConfirmedBy,
}

/// The confirmed entries of one part of a run. They count only after the sink has finished without an error: until then
/// a crash may lose them.
#[derive(Default)]
pub struct ConfirmedEntries {
    lists: Mutex<ConfirmedLists>,
}

#[derive(Default)]
struct ConfirmedLists {
    entries: Spool<Confirmed>,
    /// The confirmed entries of which further names may be linked.
    several_names: HashSet<RelPath>,
    /// The sink has finished: everything in the list is durable.
    durable: bool,
}

impl ConfirmedEntries {
    /// Adds an entry. Directories are ignored: they stay.
    ///
    /// # Errors
    /// `Io` if the list cannot be written.
    pub(crate) fn add(&self, entry: &Entry, proof: ConfirmedBy) -> Result<()> {
        if entry.is_dir() {
            return Ok(());
        }
        let mut lists = self.lists.lock();
        if entry.nlink > 1 {
            lists.several_names.insert(entry.path.clone());
        }
        let entry = Entry { xattrs: Vec::new(), names: None, ..entry.clone() };
        lists.entries.push(&Confirmed { entry, proof }).map_err(|e| list_error(&e))
    }

    /// Adds a further name of the entry at `to`, if that one is confirmed.
    ///
    /// # Errors
    /// `Io` if the list cannot be written.
    pub(crate) fn add_link(&self, entry: &Entry, to: &RelPath, proof: ConfirmedBy) -> Result<()> {
        let is_confirmed = self.lists.lock().several_names.contains(to);
        if is_confirmed { self.add(entry, proof) } else { Ok(()) }
    }

    /// The sink has finished without an error.
    pub(crate) fn set_durable(&self) {
        self.lists.lock().durable = true;
    }

    /// Takes the entries out; none unless they are durable.
    pub(crate) fn take(&self) -> Spool<Confirmed> {
        let lists = std::mem::take(&mut *self.lists.lock());
        if lists.durable { lists.entries } else { Spool::default() }
    }
}

/// The error for a list that cannot be written or read.
pub(crate) fn list_error(error: &std::io::Error) -> Error {
    Error::list("copied entries", error)
}
