//! Directories that are held open, and names in them.

use std::collections::HashSet;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, OnceLock};

use haul_core::Ops;
use haul_core::staging::is_staging_name;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::descriptors;

/// The error for a name that stands for another inode than the one that this run made or looked at. No file system
/// returns this number for a path.
pub(crate) const REPLACED: Errno = Errno::NOTUNIQ;
/// The error for backups of a tree in the tree itself, under another name. No file system returns this number either.
pub(crate) const IN_ITSELF: Errno = Errno::REMCHG;
/// The error for a symbolic link to a directory that another user may have made. Nor does one return this number.
pub(crate) const FOREIGN: Errno = Errno::BADE;

/// A directory that is held open.
pub(crate) struct Dir {
    fd: OwnedFd,
    /// This run made the directory, so it holds only entries that this run made.
    pub(crate) fresh: bool,
    /// Nothing in the directory may be replaced or removed, except staged files.
    pub(crate) keeps: bool,
    /// The limit on file system operations.
    pub(crate) ops: Arc<Ops>,
    /// The facts that other modules found out about the directory.
    pub(crate) facts: DirFacts,
}

/// Facts about one directory, each found out when first needed.
#[derive(Default)]
pub(crate) struct DirFacts {
    /// Whether the directory ignores the case of names.
    pub(crate) folds: OnceLock<bool>,
    /// Whether the directory has a default ACL, which new files inherit.
    pub(crate) has_default_acl: OnceLock<bool>,
    /// The staging names found by prefetching the directory; `None` if the listing was cut short.
    pub(crate) prefetched: OnceLock<Option<HashSet<Vec<u8>>>>,
    /// The staging names found by a listing for them alone.
    pub(crate) staged: OnceLock<HashSet<Vec<u8>>>,
}

impl Dir {
    pub(crate) fn new(fd: OwnedFd, fresh: bool, ops: &Arc<Ops>) -> Self {
        Self { fd, fresh, keeps: false, ops: Arc::clone(ops), facts: DirFacts::default() }
    }

    /// The same directory; with `keeps`, nothing in it may be replaced or removed, except staged files.
    pub(crate) fn keeping(self, keeps: bool) -> Self {
        Self { keeps, ..self }
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Dir {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// A name in a held directory: the argument of the `*at` system calls.
#[derive(Clone)]
pub(crate) struct At {
    /// The directory.
    pub(crate) dir: Arc<Dir>,
    /// One component, or `.`.
    pub(crate) name: Vec<u8>,
}

impl At {
    /// Opens the name without following a symbolic link.
    pub(crate) fn open(&self, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        self.dir.ops.one();
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        descriptors::wait_for(|| rustix::fs::openat(&self.dir, &self.name[..], flags, mode))
    }

    /// Removes the name.
    pub(crate) fn unlink(&self, flags: AtFlags) -> rustix::io::Result<()> {
        if self.dir.keeps && !is_staging_name(&self.name) {
            return Err(Errno::PERM);
        }
        self.dir.ops.one();
        rustix::fs::unlinkat(&self.dir, &self.name[..], flags)
    }

    /// Removes the name, which may be missing.
    pub(crate) fn remove(&self) -> rustix::io::Result<()> {
        match self.unlink(AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            other => other,
        }
    }

    /// Renames this to `to`. Replaces an entry with that name, unless its directory keeps its entries.
    pub(crate) fn rename(&self, to: &Self) -> rustix::io::Result<()> {
        self.dir.ops.one();
        if to.dir.keeps {
            let flags = rustix::fs::RenameFlags::NOREPLACE;
            return rustix::fs::renameat_with(&self.dir, &self.name[..], &to.dir, &to.name[..], flags);
        }
        rustix::fs::renameat(&self.dir, &self.name[..], &to.dir, &to.name[..])
    }

    /// Another name in the same directory.
    pub(crate) fn sibling(&self, name: &[u8]) -> Self {
        Self { dir: self.dir.clone(), name: name.to_vec() }
    }

    /// A path to the name through the held directory, for system calls without directory handles.
    pub(crate) fn proc_path(&self) -> Vec<u8> {
        use std::io::Write;
        let mut path = Vec::with_capacity(32 + self.name.len());
        // Writing to memory cannot fail.
        let _ = write!(path, "/proc/self/fd/{}/", self.dir.as_raw_fd());
        path.extend_from_slice(&self.name);
        path
    }
}
