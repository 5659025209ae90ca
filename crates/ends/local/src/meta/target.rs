//! The inode whose metadata is set.

use std::os::fd::BorrowedFd;

use haul_core::entry::Xattr;
use haul_core::{Entry, Ops, Timestamp};
use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};

use crate::path::stat;
use crate::path::xattrs::{self, XattrsOf};

/// An inode held by a handle, so that it cannot be replaced under its name.
pub(super) enum Target<'a> {
    /// Open for writing: every call takes the handle.
    File(BorrowedFd<'a>),
    /// Held only, perhaps a symbolic link: calls reach it by the path of the handle in `/proc`.
    Held(BorrowedFd<'a>),
}

impl Target<'_> {
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::File(fd) | Self::Held(fd) => *fd,
        }
    }

    fn path(&self) -> String {
        stat::path_of(&self.fd())
    }

    pub(super) fn chown(&self, uid: u32, gid: u32) -> rustix::io::Result<()> {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::fs::chownat(self.fd(), c"", Some(uid), Some(gid), AtFlags::EMPTY_PATH)
    }

    pub(super) fn chmod(&self, mode: u32) -> rustix::io::Result<()> {
        let mode = Mode::from_raw_mode(mode);
        match self {
            Self::File(fd) => rustix::fs::fchmod(fd, mode),
            Self::Held(_) => rustix::fs::chmod(self.path(), mode),
        }
    }

    pub(super) fn set_times(&self, entry: &Entry) -> rustix::io::Result<()> {
        let spec = |time: Timestamp| Timespec { tv_sec: time.sec, tv_nsec: time.nsec.into() };
        let times = Timestamps { last_access: spec(entry.atime), last_modification: spec(entry.mtime) };
        match self {
            Self::File(fd) => rustix::fs::futimens(fd, &times),
            Self::Held(_) => rustix::fs::utimensat(rustix::fs::CWD, self.path(), &times, AtFlags::empty()),
        }
    }

    pub(super) fn xattrs(&self, ops: &Ops) -> rustix::io::Result<Vec<Xattr>> {
        match self {
            Self::File(fd) => xattrs::read(ops, &XattrsOf::File(*fd)),
            Self::Held(_) => xattrs::read(ops, &XattrsOf::Target(self.path().as_bytes())),
        }
    }

    pub(super) fn set_xattr(&self, name: &[u8], value: &[u8]) -> rustix::io::Result<()> {
        let flags = XattrFlags::empty();
        match self {
            Self::File(fd) => rustix::fs::fsetxattr(fd, name, value, flags),
            Self::Held(_) => rustix::fs::setxattr(self.path(), name, value, flags),
        }
    }

    pub(super) fn remove_xattr(&self, name: &[u8]) -> rustix::io::Result<()> {
        match self {
            Self::File(fd) => rustix::fs::fremovexattr(fd, name),
            Self::Held(_) => rustix::fs::removexattr(self.path(), name),
        }
    }
}
