//! The entries that files with several names belong to.
//!
//! The engine offers one name of each file of the source; the others are links to it. So if two offered entries find
//! the same file at the destination, they were one file there and are two at the source. The first entry keeps the
//! file, the second one gets a file of its own. Neither content nor metadata of an entry is written into a file of
//! another entry.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use haul_core::sync::Mutex;
use haul_core::{Entry, RelPath};
use rustix::fs::Statx;

use crate::path::stat;

/// Files with several names at the destination: the hash of device and inode, and the hash of the path of the entry.
/// With `--link-dest` that is every file, so each takes some 30 bytes of memory. Two files of one hash only cost one of
/// them a copy of its own.
#[derive(Default)]
pub(super) struct Claims {
    of: Mutex<HashMap<u64, u64>>,
    hashes: RandomState,
}

impl Claims {
    /// Whether the file, whose plain metadata is `now`, belongs to the entry at `path`: the first entry that asks gets
    /// it.
    pub(super) fn take(&self, now: &Statx, path: &RelPath) -> bool {
        if now.stx_nlink < 2 {
            return true;
        }
        let path = self.hashes.hash_one(path);
        *self.of.lock().entry(self.hashes.hash_one(stat::inode(now))).or_insert(path) == path
    }

    /// Whether content may be written into the file. Not if it has names that the entry lacks at the source: they would
    /// get the content too.
    pub(super) fn may_write_into(&self, now: &Statx, entry: &Entry) -> bool {
        now.stx_nlink <= entry.nlink.max(1) && self.take(now, &entry.path)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use haul_core::EntryKind;

    use super::*;

    #[test]
    fn a_file_with_several_names_belongs_to_one_entry() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "").unwrap();
        let now = || stat::statx_file(fs::File::open(dir.path().join("a")).unwrap()).unwrap();
        let path = |name: &[u8]| RelPath::new(name).unwrap();
        let claims = Claims::default();
        assert!(claims.take(&now(), &path(b"x")) && claims.take(&now(), &path(b"a")), "it has one name");
        fs::hard_link(dir.path().join("a"), dir.path().join("b")).unwrap();
        assert!(claims.take(&now(), &path(b"a")));
        assert!(!claims.take(&now(), &path(b"b")) && claims.take(&now(), &path(b"a")));

        let entry = |name, nlink| Entry { nlink, ..Entry::new(path(name), EntryKind::File, 0) };
        assert!(claims.may_write_into(&now(), &entry(b"a", 2)));
        assert!(!claims.may_write_into(&now(), &entry(b"a", 1)), "the source has fewer names");
        assert!(!claims.may_write_into(&now(), &entry(b"b", 2)), "it belongs to another entry");
    }
}
