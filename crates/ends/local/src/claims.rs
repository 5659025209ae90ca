//! Which entry a file of several names belongs to.
//!
//! The engine offers one name of each file of the source; the others are links to it. So two offered entries that
//! find the same file at the destination were one file there and are two at the source: the first keeps the file,
//! the other one gets a file of its own. Nothing is written into a file of another entry, nor is its metadata set.

use haul_core::sync::Mutex;
use std::collections::HashMap;

use haul_core::{Entry, RelPath};
use rustix::fs::Statx;

use super::stat;

/// Files of several names at the destination, by device and inode: some 150 bytes of memory for each.
#[derive(Default)]
pub(super) struct Claims {
    of: Mutex<HashMap<(u64, u64), RelPath>>,
}

impl Claims {
    /// Whether the file, whose plain metadata is `now`, is this entry's: the first one that asks gets it.
    pub(super) fn take(&self, now: &Statx, path: &RelPath) -> bool {
        if now.stx_nlink < 2 {
            return true;
        }
        let mut of = self.of.lock();
        of.entry(stat::inode(now)).or_insert_with(|| path.clone()) == path
    }

    /// Whether the content may be written into the file: not if it has names that the entry does not have at the
    /// source, as those would get the content too.
    pub(super) fn may_write_into(&self, now: &Statx, entry: &Entry) -> bool {
        now.stx_nlink <= entry.nlink.max(1) && self.take(now, &entry.path)
    }
}
