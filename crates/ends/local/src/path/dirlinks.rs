//! Symbolic links to directories that a destination keeps (`--keep-dirlinks`).
//!
//! A path leads through such a link as through a directory. Whoever can make a link in the destination could choose
//! where the run writes, so not every link counts: its owner must be root, the user of the run or the owner of the
//! directory. Nor does a link count that the source has in the same run. A directory that a link leads to in the same
//! tree is never removed: the run may just have written into it.

use std::collections::HashSet;
use std::os::fd::OwnedFd;

use haul_core::sync::Mutex;
use rustix::fs::{Mode, OFlags, Statx};
use rustix::io::Errno;

use super::at::{At, FOREIGN};
use super::descriptors;
use super::stat;

/// The links of a root that paths may lead through.
#[derive(Default)]
pub(crate) struct KeptLinks {
    /// The hashes of the paths at which the source has a symbolic link.
    of_source: Mutex<HashSet<u128>>,
    /// The devices and inodes of the directories that links led to.
    entered: Mutex<HashSet<(u64, u64)>>,
}

impl KeptLinks {
    /// The source has a symbolic link at the path with this hash: it is no directory.
    pub(super) fn is_of_source(&self, hash: u128) {
        self.of_source.lock().insert(hash);
    }

    /// Opens the directory that the symbolic link at `at` leads to; `None` if that is no link, or leads to no directory.
    ///
    /// # Errors
    /// [`FOREIGN`] if another user may have made the link; else that of the system.
    pub(super) fn open(&self, at: &At, hash: u128) -> rustix::io::Result<Option<OwnedFd>> {
        if self.of_source.lock().contains(&hash) {
            return Ok(None);
        }
        // The link is held: its owner and its target are those of one link.
        let link = at.open(OFlags::PATH, Mode::empty())?;
        let owner = stat::statx_held(&link)?.stx_uid;
        let target = match rustix::fs::readlinkat(&link, c"", Vec::new()) {
            Err(Errno::INVAL | Errno::NOENT) => return Ok(None),
            target => target?,
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        at.dir.ops.one();
        let opened = descriptors::wait_for(|| rustix::fs::openat(&at.dir, &target, flags, Mode::empty()));
        let directory = match opened {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            directory => directory?,
        };
        let found = stat::statx_held(&directory)?;
        if owner != 0 && owner != rustix::process::geteuid().as_raw() && owner != found.stx_uid {
            return Err(FOREIGN);
        }
        self.entered.lock().insert(stat::inode(&found));
        Ok(Some(directory))
    }

    /// Whether a link has led to a directory.
    pub(super) fn has_entered_any(&self) -> bool {
        !self.entered.lock().is_empty()
    }

    /// Whether a link has led to this directory.
    pub(super) fn has_entered(&self, directory: &Statx) -> bool {
        self.entered.lock().contains(&stat::inode(directory))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{lchown, symlink};
    use std::path::Path;
    use std::sync::Arc;

    use haul_core::{Entry, EntryKind, RelPath, Side};

    use super::*;
    use crate::path::place::RootEntry;
    use crate::path::root::Root;

    fn root(dir: &Path, keeps: bool) -> Root {
        Root::new(RootEntry::new(dir, b"."), Side::Destination, Arc::default()).keeping_dirlinks(keeps)
    }

    fn path(text: &str) -> RelPath {
        RelPath::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn paths_lead_through_links_to_directories_only() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir_all(scratch.path().join("real/sub")).unwrap();
        fs::write(scratch.path().join("file"), "").unwrap();
        for (name, target) in [("link", "real"), ("nest", "link"), ("dangling", "no"), ("to-file", "file")] {
            symlink(target, scratch.path().join(name)).unwrap();
        }
        symlink("loop", scratch.path().join("loop")).unwrap();
        let kept = root(scratch.path(), true);
        for good in ["link", "link/sub", "nest/sub", "real/sub"] {
            assert!(kept.dir(&path(good), false).is_ok(), "{good}");
            let at = kept.at_dir(&path(good)).unwrap();
            assert!(stat::is_dir(&stat::statx(&at).unwrap()), "{good}");
        }
        for bad in ["dangling", "to-file", "loop", "file"] {
            assert!(kept.dir(&path(bad), false).is_err(), "{bad}");
        }
        assert!(kept.is_behind_link(&path("real/sub")) && !kept.is_behind_link(&path("file")));
        let plain = root(scratch.path(), false);
        assert!(plain.dir(&path("link/sub"), false).is_err() && !plain.is_behind_link(&path("real/sub")));
    }

    #[test]
    fn a_link_of_the_source_is_no_directory() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("real")).unwrap();
        symlink("real", scratch.path().join("link")).unwrap();
        let root = root(scratch.path(), true);
        root.note_link(&Entry::new(path("link"), EntryKind::Symlink(b"plain".to_vec()), 0));
        root.at_made(&path("link/f")).unwrap();
        assert!(scratch.path().join("link").symlink_metadata().unwrap().is_dir(), "it was replaced");
        assert_eq!(fs::read_dir(scratch.path().join("real")).unwrap().count(), 0);
    }

    #[test]
    fn a_link_counts_only_if_its_owner_may_choose_the_directory() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let scratch = tempfile::tempdir().unwrap();
        for (link_owner, dir_owner, is_trusted) in
            [(0, 0, true), (0, 7, true), (7, 7, true), (7, 0, false), (7, 8, false)]
        {
            let dir = scratch.path().join(format!("{link_owner}-{dir_owner}"));
            fs::create_dir_all(dir.join("real")).unwrap();
            symlink("real", dir.join("link")).unwrap();
            lchown(dir.join("real"), Some(dir_owner), None).unwrap();
            lchown(dir.join("link"), Some(link_owner), None).unwrap();
            let opened = root(&dir, true).at_made(&path("link/f"));
            assert_eq!(opened.err(), (!is_trusted).then_some(FOREIGN), "{link_owner} {dir_owner}");
            assert!(dir.join("link").is_symlink(), "it stays");
        }
    }
}
