//! An inode that is held for calls on its metadata, so that it cannot be replaced under its name.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

use super::at::At;
use super::stat;

/// A held inode.
pub(crate) enum HeldInode {
    /// Calls reach it by the path of the handle in `/proc`.
    Only(OwnedFd),
    /// Calls take the handle.
    Open(OwnedFd),
}

impl AsFd for HeldInode {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Only(fd) | Self::Open(fd) => fd.as_fd(),
        }
    }
}

/// Holds the entry with this name, without following a symbolic link.
///
/// # Errors
/// The error of opening.
pub(crate) fn hold_name(at: &At, flags: OFlags) -> rustix::io::Result<HeldInode> {
    hold(|how| at.open(how | flags, Mode::empty()))
}

/// Holds the entry that `open` opens with the given flags. Without `/proc`, opens a regular file for reading too, if
/// that is allowed. Directories can be opened by their handles, and opening a device may have an effect.
///
/// # Errors
/// The error of opening.
pub(crate) fn hold(open: impl Fn(OFlags) -> rustix::io::Result<OwnedFd>) -> rustix::io::Result<HeldInode> {
    let held = open(OFlags::PATH)?;
    if !stat::has_proc()
        && stat::is_file(&stat::statx_held(&held)?)
        && let Ok(opened) = open(OFlags::NONBLOCK)
    {
        return Ok(HeldInode::Open(opened));
    }
    Ok(HeldInode::Only(held))
}
