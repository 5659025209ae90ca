//! A file that is being written, under its staging name or in place.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use haul_core::{Error, ErrorKind, RelPath, Result};
use rustix::fs::{Mode, OFlags, Statx};
use rustix::io::Errno;

use super::clean::clean;
use super::lock::{lock, try_lock};
use super::mark;
use super::names::{is_named, is_ours, journal_of, part_of, remove_if};
use crate::meta::metadata::{Replaces, WrittenFile};
use crate::path::at::At;
use crate::path::stat::{self, Device};
use crate::path::xattrs::has_default_acl;
use crate::tree::local_tree::LocalTree;

/// How often opening is tried while other runs finish the same file.
const TRIES: usize = 32;

/// A file that is being written: under its staging name, locked; or under its final name, see
/// [`crate::network_fs::direct`].
pub(crate) struct Staged {
    /// Its final name.
    pub(crate) at: At,
    /// Its current name.
    pub(crate) part: At,
    /// The open file.
    pub(crate) file: File,
    /// The file system that it is on, for syncing.
    pub(crate) dev: Device,
    /// Its metadata when it was opened: owner, mode, inode.
    pub(crate) now: Statx,
    /// The file existed before.
    pub(crate) found: bool,
    /// The file has its final name already.
    pub(crate) direct: bool,
    /// The file has a key, which is removed before it is renamed into place.
    pub(crate) keyed: bool,
}

/// The result of one try to open a staged file.
enum Try {
    Opened(Box<Staged>),
    /// The entry itself exists: another run may be finishing it at this moment.
    Exists,
    /// Another process used the name.
    Again,
}

impl Staged {
    /// Makes the staged file of the entry at `path`, or opens the one of an interrupted run.
    pub(crate) fn open(tree: &LocalTree, path: &RelPath) -> Result<Self> {
        Self::open_unless(tree, path, &|_| Mode::RUSR | Mode::WUSR, &|_| false)?
            .ok_or_else(|| unstable(tree, path))
    }

    /// The same with a `mode` for a new file. `None` if `exists` finds the entry itself.
    pub(crate) fn open_unless(
        tree: &LocalTree,
        path: &RelPath,
        mode: &dyn Fn(&At) -> Mode,
        exists: &dyn Fn(&At) -> bool,
    ) -> Result<Option<Self>> {
        let at = tree.root.at_made(path).map_err(|errno| tree.root.error("write", path, errno))?;
        for _ in 0..TRIES {
            match Self::try_open(tree, path, &at, mode(&at), exists)? {
                Try::Opened(staged) => return Ok(Some(*staged)),
                Try::Exists => return Ok(None),
                Try::Again => {}
            }
        }
        Err(unstable(tree, path))
    }

    fn try_open(
        tree: &LocalTree,
        path: &RelPath,
        at: &At,
        mode: Mode,
        exists: &dyn Fn(&At) -> bool,
    ) -> Result<Try> {
        let failed = |errno| tree.root.error("write", path, errno);
        if exists(at) {
            return Ok(Try::Exists);
        }
        let part = part_of(at);
        let new = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let (file, found) = match part.open(new, mode) {
            Ok(file) => (file, false),
            Err(Errno::EXIST) => match part.open(OFlags::RDWR | OFlags::NONBLOCK, Mode::empty()) {
                Ok(file) => (file, true),
                Err(Errno::NOENT) => return Ok(Try::Again),
                Err(_) => {
                    part.remove().map_err(failed)?;
                    return Ok(Try::Again);
                }
            },
            Err(Errno::ACCESS) if tree.unlocked.unlock_parent(path, at) => return Ok(Try::Again),
            Err(errno) => return Err(failed(errno)),
        };
        if found && !is_ours(&stat::statx_file(&file).map_err(failed)?) {
            // Planted, or of another user's run, which is not waited for.
            if try_lock(&file) == Err(Errno::WOULDBLOCK) {
                let cause = "another user holds a file under its staging name";
                return Err(tree.root.fault(ErrorKind::Busy, "write", path, cause));
            }
            part.remove().map_err(failed)?;
            return Ok(Try::Again);
        }
        lock(tree, path, &file)?;
        let now = stat::statx_file(&file).map_err(failed)?;
        // Before this lock, another run may have locked the file, filled it and renamed it into place.
        if !is_named(&now, &part) {
            return Ok(Try::Again);
        }
        if found && !is_ours(&now) {
            part.remove().map_err(failed)?;
            return Ok(Try::Again);
        }
        // The entry may have appeared between the first look and the opening.
        if exists(at) {
            part.remove().map_err(failed)?;
            return Ok(Try::Exists);
        }
        let (at, dev) = (at.clone(), stat::device(&now));
        let staged = Self { at, part, file: file.into(), dev, now, found, direct: false, keyed: false };
        Ok(Try::Opened(Box::new(staged)))
    }

    /// Opens the file with the final name, to be updated in place. `None` if there is no regular file.
    pub(crate) fn in_place(tree: &LocalTree, path: &RelPath) -> Result<Option<Self>> {
        let failed = |errno| tree.root.error("change in place", path, errno);
        let at = tree.root.at_made(path).map_err(failed)?;
        if !stat::statx(&at).is_ok_and(|now| stat::is_file(&now)) {
            return Ok(None);
        }
        let file = open_own(&at).map_err(failed)?;
        lock(tree, path, &file)?;
        let now = stat::statx_file(&file).map_err(failed)?;
        if !stat::is_file(&now) || !is_named(&now, &at) {
            return Err(unstable(tree, path));
        }
        // An interrupted run without this option may have left a staged file.
        clean(&at);
        let dev = stat::device(&now);
        let (part, file) = (at.clone(), file.into());
        Ok(Some(Self { at, part, file, dev, now, found: true, direct: true, keyed: false }))
    }

    /// The open file, for setting its metadata.
    pub(crate) fn written(&self) -> WrittenFile<'_> {
        let has_no_xattrs = !self.found && !has_default_acl(&self.at.dir);
        let replaces = match (self.direct, self.found) {
            (true, true) => Replaces::Itself,
            (true, false) => Replaces::Nothing(&self.at),
            (false, _) => Replaces::Name(&self.at),
        };
        WrittenFile { file: &self.file, now: &self.now, has_no_xattrs, replaces }
    }

    /// Removes the content of an interrupted run.
    pub(crate) fn clear(&self) -> io::Result<()> {
        if self.found {
            journal_of(&self.at).remove()?;
            mark::remove_key(&self.file);
            self.at.dir.ops.one();
            self.file.set_len(0)?;
        }
        Ok(())
    }

    /// Removes a file that will not be completed.
    pub(crate) fn abandon(&self) {
        if self.direct {
            remove_if(&self.part, &self.now);
        } else {
            let _ = self.part.remove();
        }
    }
}

fn unstable(tree: &LocalTree, path: &RelPath) -> Error {
    tree.root.fault(ErrorKind::Busy, "write", path, "its staging file does not hold still")
}

/// Opens a file for writing. If its mode denies that to its owner, the mode is changed until the file is open.
fn open_own(at: &At) -> rustix::io::Result<OwnedFd> {
    let open = || at.open(OFlags::RDWR | OFlags::NONBLOCK, Mode::empty());
    match open() {
        Err(Errno::ACCESS) => {}
        other => return other,
    }
    let held = at.open(OFlags::PATH, Mode::empty())?;
    let now = stat::statx_file(&held)?;
    if !stat::is_file(&now) || now.stx_uid != rustix::process::geteuid().as_raw() {
        return Err(Errno::ACCESS);
    }
    let mode = Mode::from_raw_mode(stat::mode(&now));
    let path = stat::path_of(&held);
    rustix::fs::chmod(&path, mode | Mode::RUSR | Mode::WUSR)?;
    let opened = open();
    rustix::fs::chmod(&path, mode)?;
    opened
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use haul_core::Side;

    use super::*;
    use crate::path::place::RootEntry;
    use crate::path::root::Root;
    use crate::scene::{names, path};

    fn tree(dir: &std::path::Path) -> LocalTree {
        LocalTree::new(Root::new(RootEntry::new(dir, b"."), Side::Destination, std::sync::Arc::default()))
    }

    #[test]
    fn a_staged_file_is_locked_and_the_timeout_is_halved() {
        let dir = tempfile::tempdir().unwrap();
        let tree = tree(dir.path());
        let first = Staged::open(&tree, &path("f")).unwrap();
        assert!(!first.found);
        let timeout = tree.lock_timeout.get();
        // Most of the timeout is skipped.
        for _ in 0..8 {
            tree.lock_timeout.shorten();
        }
        let error = Staged::open(&tree, &path("f")).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Busy);
        assert!(tree.lock_timeout.get() < timeout / 256);
        drop(first);
        let second = Staged::open(&tree, &path("f")).unwrap();
        assert!(second.found, "it is taken over");
        second.abandon();
        assert_eq!(names(dir.path()), [""; 0]);
    }

    #[test]
    fn a_planted_file_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let tree = tree(dir.path());
        let at = tree.root.at(&path("f")).unwrap();
        let part = dir.path().join(String::from_utf8(part_of(&at).name).unwrap());
        let victim = dir.path().join("victim");
        fs::write(&victim, "content").unwrap();
        fs::hard_link(&victim, &part).unwrap();
        Staged::open(&tree, &path("f")).unwrap().clear().unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"content", "a link to another file");
        fs::remove_file(&part).unwrap();
        std::os::unix::fs::symlink(&victim, &part).unwrap();
        Staged::open(&tree, &path("f")).unwrap().file.set_len(0).unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"content", "a symbolic link");
    }

    #[test]
    fn an_entry_that_appears_is_not_staged() {
        let dir = tempfile::tempdir().unwrap();
        let tree = tree(dir.path());
        let looks = std::cell::Cell::new(0);
        let exists = |_: &At| {
            looks.set(looks.get() + 1);
            looks.get() == 2
        };
        let staged = Staged::open_unless(&tree, &path("f"), &|_| Mode::RWXU, &exists).unwrap();
        assert!(staged.is_none() && names(dir.path()).is_empty());
    }

    #[test]
    fn only_a_regular_file_is_updated_in_place_and_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let tree = tree(dir.path());
        assert!(Staged::in_place(&tree, &path("missing")).unwrap().is_none());
        fs::create_dir(dir.path().join("d")).unwrap();
        assert!(Staged::in_place(&tree, &path("d")).unwrap().is_none());
        fs::write(dir.path().join("f"), "x").unwrap();
        fs::set_permissions(dir.path().join("f"), fs::Permissions::from_mode(0o400)).unwrap();
        let staged = Staged::in_place(&tree, &path("f")).unwrap().unwrap();
        assert!(staged.found && staged.direct);
        assert_eq!(fs::metadata(dir.path().join("f")).unwrap().permissions().mode() & 0o777, 0o400);
    }
}
