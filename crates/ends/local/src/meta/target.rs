//! The inode whose metadata is set.

use std::os::fd::{AsFd, BorrowedFd};

use haul_core::entry::Xattr;
use haul_core::{Entry, Ops, Timestamp};
use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use crate::path::held::HeldInode;
use crate::path::stat;
use crate::path::xattrs::{self, XattrsOf};

/// An inode held by a handle, so that it cannot be replaced under its name.
pub(super) enum MetaTarget<'a> {
    /// Open: every call takes the handle.
    File(BorrowedFd<'a>),
    /// Held only, perhaps a symbolic link: calls reach it by the path of the handle in `/proc`.
    Held(BorrowedFd<'a>),
}

impl<'a> MetaTarget<'a> {
    pub(super) fn of(held: &'a HeldInode) -> Self {
        match held {
            HeldInode::Only(fd) => Self::Held(fd.as_fd()),
            HeldInode::Open(fd) => Self::File(fd.as_fd()),
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::File(fd) | Self::Held(fd) => *fd,
        }
    }

    pub(super) fn chown(&self, uid: u32, gid: u32) -> rustix::io::Result<()> {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::fs::chownat(self.fd(), c"", Some(uid), Some(gid), AtFlags::EMPTY_PATH)
    }

    pub(super) fn chmod(&self, mode: u32) -> rustix::io::Result<()> {
        let mode = Mode::from_raw_mode(mode);
        self.call(|path| rustix::fs::chmod(path, mode), |fd| rustix::fs::fchmod(fd, mode))
    }

    pub(super) fn set_times(&self, entry: &Entry) -> rustix::io::Result<()> {
        let spec = |time: Timestamp| Timespec { tv_sec: time.sec, tv_nsec: time.nsec.into() };
        let times = Timestamps { last_access: spec(entry.atime), last_modification: spec(entry.mtime) };
        match self {
            Self::File(fd) => rustix::fs::futimens(fd, &times),
            Self::Held(fd) if stat::has_proc() => {
                rustix::fs::utimensat(rustix::fs::CWD, stat::path_of(fd), &times, AtFlags::empty())
            }
            // Linux 5.8 and later.
            Self::Held(fd) => {
                rustix::fs::utimensat(fd, c"", &times, AtFlags::EMPTY_PATH).or(Err(Errno::NOTSUP))
            }
        }
    }

    pub(super) fn xattrs(&self, ops: &Ops) -> rustix::io::Result<Vec<Xattr>> {
        let of = match self {
            Self::File(fd) => XattrsOf::File(*fd),
            Self::Held(fd) => XattrsOf::Held(*fd),
        };
        xattrs::read(ops, &of)
    }

    pub(super) fn set_xattr(&self, name: &[u8], value: &[u8]) -> rustix::io::Result<()> {
        let flags = XattrFlags::empty();
        self.call(
            |path| rustix::fs::setxattr(path, name, value, flags),
            |fd| rustix::fs::fsetxattr(fd, name, value, flags),
        )
    }

    pub(super) fn remove_xattr(&self, name: &[u8]) -> rustix::io::Result<()> {
        self.call(|path| rustix::fs::removexattr(path, name), |fd| rustix::fs::fremovexattr(fd, name))
    }

    /// A system call by path or by handle. Without `/proc` there is no path: directories are opened, and for other
    /// inodes that are only held the call is not supported.
    fn call(
        &self,
        by_path: impl FnOnce(String) -> rustix::io::Result<()>,
        by_handle: impl FnOnce(BorrowedFd<'_>) -> rustix::io::Result<()>,
    ) -> rustix::io::Result<()> {
        match self {
            Self::File(fd) => by_handle(*fd),
            Self::Held(fd) if stat::has_proc() => by_path(stat::path_of(fd)),
            Self::Held(fd) => by_handle(stat::open_dir(fd)?.as_fd()),
        }
    }
}
