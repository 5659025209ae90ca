//! Folders whose mode keeps their own owner out: opened up for the run, and set back.
//!
//! Only folders of the tree that is copied are: what is above its root belongs to nobody's run. They get their own mode
//! with all other metadata of folders at the end; those that do not come to that get the mode back that they had.

use haul_core::sync::{Mutex, MutexGuard};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd};

use haul_core::RelPath;
use rustix::fs::{Mode, OFlags};

use super::root::{At, Root};
use super::stat;

/// The folders, and what they were.
#[derive(Default)]
pub(super) struct Unlocked(Mutex<HashMap<RelPath, Was>>);

#[derive(Clone, Copy)]
struct Was {
    mode: Mode,
    inode: (u64, u64),
}

impl Unlocked {
    fn lock(&self) -> MutexGuard<'_, HashMap<RelPath, Was>> {
        self.0.lock()
    }
}

impl Root {
    /// Lets the owner write into the folder that holds the entry at `path`. Whether that helped.
    pub(super) fn unlock_parent(&self, path: &RelPath, at: &At) -> bool {
        // What holds the root is not part of the tree.
        !at.dir.keeps && path.parent().is_some_and(|parent| self.unlock(&parent, &at.dir))
    }

    /// Lets the owner of the folder at `path` list it, write into it and look into it, if its mode does not.
    pub(super) fn unlock_dir(&self, path: &RelPath, at: &At) -> bool {
        let open = || at.open(OFlags::PATH | OFlags::DIRECTORY, Mode::empty());
        !at.dir.keeps && open().is_ok_and(|dir| self.unlock(path, &dir))
    }

    /// The same for all folders on the way to `path`. Whether that changed something.
    pub(super) fn unlock_way(&self, path: &RelPath) -> bool {
        let ends = path.as_bytes().iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let mut changed = false;
        for folder in std::iter::once(0).chain(ends).filter_map(|end| path.ancestor(end)) {
            match self.at(&folder) {
                Ok(at) => changed |= self.unlock_dir(&folder, &at),
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
        // Before it is changed: whatever ends the run then knows of it.
        let was = Was { mode, inode: stat::inode(&now) };
        self.unlocked.lock().entry(path.clone()).or_insert(was);
        chmod(dir, mode | Mode::RWXU)
    }

    /// The folder at `path` has its own metadata now.
    pub(super) fn is_settled(&self, path: &RelPath) {
        let mut unlocked = self.unlocked.lock();
        // Most often there is none, and hashing a long path takes its time.
        if !unlocked.is_empty() {
            unlocked.remove(path);
        }
    }

    /// Gives the folders that were opened up and not settled the modes that they had, innermost first.
    pub(super) fn lock_again(&self) {
        let mut left: Vec<(RelPath, Was)> = self.unlocked.lock().drain().collect();
        left.sort_by_cached_key(|(path, _)| Reverse(path.components().count()));
        for (path, was) in left {
            let dir = self.at(&path).and_then(|at| at.open(OFlags::PATH | OFlags::DIRECTORY, Mode::empty()));
            let Ok(dir) = dir else { continue };
            let opened = (was.mode | Mode::RWXU).as_raw_mode();
            // Somebody may have removed or replaced it, or have given it a mode since.
            if stat::statx_file(&dir)
                .is_ok_and(|now| stat::inode(&now) == was.inode && stat::mode(&now) == opened)
            {
                chmod(&dir, was.mode);
            }
        }
    }
}

fn chmod(dir: &impl AsRawFd, mode: Mode) -> bool {
    rustix::fs::chmod(stat::path_of(dir), mode).is_ok()
}
