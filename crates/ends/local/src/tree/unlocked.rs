//! Directories whose mode denies access to their own owner: made accessible for the run, and restored at its end.
//!
//! Only directories of the copied tree are changed, none above its root. They get their final mode with all other
//! metadata of directories at the end; the others get back the mode that they had.

use haul_core::sync::Mutex;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd};

use haul_core::RelPath;
use rustix::fs::{Mode, OFlags};

use crate::path::at::At;
use crate::path::root::Root;
use crate::path::stat;

/// The changed directories with their earlier state.
#[derive(Default)]
pub(crate) struct Unlocked(Mutex<HashMap<RelPath, Was>>);

#[derive(Clone, Copy)]
struct Was {
    mode: Mode,
    inode: (u64, u64),
}

impl Unlocked {
    /// Lets the owner write into the directory of the entry at `path`. Whether that changed its mode.
    pub(crate) fn unlock_parent(&self, path: &RelPath, at: &At) -> bool {
        // The directory that holds the root is not part of the tree.
        !at.dir.keeps && path.parent().is_some_and(|parent| self.unlock(&parent, &at.dir))
    }

    /// Lets the owner list, search and write the directory at `path`. Whether that changed its mode.
    pub(crate) fn unlock_dir(&self, path: &RelPath, at: &At) -> bool {
        let open = || at.open(OFlags::PATH | OFlags::DIRECTORY, Mode::empty());
        !at.dir.keeps && open().is_ok_and(|dir| self.unlock(path, &dir))
    }

    /// The same for all directories on the way to `path`. Whether that changed any mode.
    pub(crate) fn unlock_ancestors(&self, root: &Root, path: &RelPath) -> bool {
        let ends = path.as_bytes().iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let mut changed = false;
        for directory in std::iter::once(0).chain(ends).filter_map(|end| path.ancestor(end)) {
            match root.at_dir(&directory) {
                Ok(at) => changed |= self.unlock_dir(&directory, &at),
                Err(_) => break,
            }
        }
        changed
    }

    fn unlock(&self, path: &RelPath, dir: &(impl AsFd + AsRawFd)) -> bool {
        let Ok(now) = stat::statx_file(dir) else { return false };
        let mode = Mode::from_raw_mode(stat::mode(&now));
        if mode.contains(Mode::RWXU) || now.stx_uid != rustix::process::geteuid().as_raw() {
            return false;
        }
        // Recorded before the change, so that every end of the run restores the mode.
        let was = Was { mode, inode: stat::inode(&now) };
        self.0.lock().entry(path.clone()).or_insert(was);
        chmod(dir, mode | Mode::RWXU)
    }

    /// The directory at `path` has its final metadata.
    pub(crate) fn settled(&self, path: &RelPath) {
        let mut unlocked = self.0.lock();
        // Most runs change none, and hashing a long path takes time.
        if !unlocked.is_empty() {
            unlocked.remove(path);
        }
    }

    /// Restores the modes of the directories that are not settled, innermost first.
    pub(crate) fn lock_again(&self, root: &Root) {
        let mut left: Vec<(RelPath, Was)> = self.0.lock().drain().collect();
        left.sort_by_cached_key(|(path, _)| Reverse(path.components().count()));
        for (path, was) in left {
            let dir =
                root.at_dir(&path).and_then(|at| at.open(OFlags::PATH | OFlags::DIRECTORY, Mode::empty()));
            let Ok(dir) = dir else { continue };
            let opened = (was.mode | Mode::RWXU).as_raw_mode();
            // Another program may have removed or replaced it, or changed its mode, since.
            if stat::statx_file(&dir)
                .is_ok_and(|now| stat::inode(&now) == was.inode && stat::mode(&now) == opened)
            {
                chmod(&dir, was.mode);
            }
        }
    }
}

fn chmod(dir: &(impl AsFd + AsRawFd), mode: Mode) -> bool {
    if stat::has_proc() {
        return rustix::fs::chmod(stat::path_of(dir), mode).is_ok();
    }
    stat::open_dir(dir).is_ok_and(|dir| rustix::fs::fchmod(dir, mode).is_ok())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::sync::Arc;

    use haul_core::Side;

    use super::*;
    use crate::path::place::RootEntry;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn set(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn modes_are_restored_unless_they_were_set_or_changed_since() {
        let scratch = tempfile::tempdir().unwrap();
        let dirs = ["kept", "settled", "changed", "open"].map(|name| scratch.path().join(name));
        let root = Root::new(RootEntry::new(scratch.path(), b"."), Side::Destination, Arc::default());
        let unlocked = Unlocked::default();
        let name = |path: &Path| RelPath::new(path.file_name().unwrap().as_encoded_bytes()).unwrap();
        for dir in &dirs {
            std::fs::create_dir(dir).unwrap();
            set(dir, if dir.ends_with("open") { 0o750 } else { 0o050 });
            let path = name(dir);
            let changed = unlocked.unlock_dir(&path, &root.at(&path).unwrap());
            assert_eq!(changed, !dir.ends_with("open"));
            assert_eq!(mode(dir), 0o750);
        }
        unlocked.settled(&name(&dirs[1]));
        set(&dirs[2], 0o711);
        unlocked.lock_again(&root);
        assert_eq!(dirs.map(|dir| mode(&dir)), [0o050, 0o750, 0o711, 0o750]);
    }

    #[test]
    fn all_directories_on_the_way_are_unlocked() {
        let scratch = tempfile::tempdir().unwrap();
        let deep = scratch.path().join("a/b/c");
        std::fs::create_dir_all(&deep).unwrap();
        set(&scratch.path().join("a/b"), 0o500);
        let root = Root::new(RootEntry::new(scratch.path(), b"."), Side::Destination, Arc::default());
        let unlocked = Unlocked::default();
        let file = RelPath::new(b"a/b/c/f").unwrap();
        assert!(unlocked.unlock_ancestors(&root, &file));
        assert_eq!(mode(&scratch.path().join("a/b")), 0o700);
        assert!(!unlocked.unlock_ancestors(&root, &file), "nothing is left to unlock");
        let missing = RelPath::new(b"x/y").unwrap();
        assert!(!unlocked.unlock_ancestors(&root, &missing));
        unlocked.lock_again(&root);
        assert_eq!(mode(&scratch.path().join("a/b")), 0o500);
    }
}
