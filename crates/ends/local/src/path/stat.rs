//! Plain metadata of a name or of an open file, as `statx(2)` gives it.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use haul_core::entry::Identity;
use haul_core::policy::ExistingKind;
use haul_core::{Entry, Timestamp};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;

use super::at::At;

/// The number of a device: major, minor.
pub(crate) type Device = (u32, u32);

/// The metadata of a name; a symbolic link is not followed.
pub(crate) fn statx(at: &At) -> rustix::io::Result<Statx> {
    at.dir.ops.one();
    rustix::fs::statx(&at.dir, &at.name[..], AtFlags::SYMLINK_NOFOLLOW, wanted())
}

/// The same without the access time. Reading changes that time, so asking for it costs a request to a file server.
pub(crate) fn statx_without_atime(at: &At) -> rustix::io::Result<Statx> {
    let wanted = wanted().difference(StatxFlags::ATIME);
    at.dir.ops.one();
    rustix::fs::statx(&at.dir, &at.name[..], AtFlags::SYMLINK_NOFOLLOW, wanted)
}

/// The metadata of an open file without the access time.
pub(crate) fn statx_held(file: impl AsFd) -> rustix::io::Result<Statx> {
    rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted().difference(StatxFlags::ATIME))
}

/// Whether an open file has the size, time and inode of the entry. The change time is left out: a further name or another
/// mode changes it while the content stays the same.
pub(crate) fn is_as_scanned(file: impl AsFd, entry: &Entry) -> rustix::io::Result<bool> {
    let wanted = StatxFlags::SIZE | StatxFlags::MTIME | StatxFlags::INO;
    let now = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted)?;
    let now = Identity { len: now.stx_size, mtime: mtime(&now), ctime: None, ino: now.stx_ino };
    Ok(now == Identity { ctime: None, ..entry.identity() })
}

/// The metadata of an open file as this machine has it cached, from opening the file or from later operations.
pub(crate) fn statx_file(file: impl AsFd) -> rustix::io::Result<Statx> {
    rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, wanted())
}

/// The current metadata of an open file.
pub(crate) fn statx_now(file: impl AsFd) -> rustix::io::Result<Statx> {
    rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted())
}

/// The metadata of an open file as its server has it now.
pub(crate) fn statx_fresh(file: impl AsFd) -> rustix::io::Result<Statx> {
    rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC, wanted())
}

fn wanted() -> StatxFlags {
    StatxFlags::BASIC_STATS
}

/// The modification time.
pub(crate) fn mtime(stat: &Statx) -> Timestamp {
    Timestamp { sec: stat.stx_mtime.tv_sec, nsec: stat.stx_mtime.tv_nsec }
}

/// The change time of the inode.
pub(crate) fn ctime(stat: &Statx) -> Timestamp {
    Timestamp { sec: stat.stx_ctime.tv_sec, nsec: stat.stx_ctime.tv_nsec }
}

/// The path of an open file in `/proc`: system calls that take a path reach exactly this file by it.
pub(crate) fn path_of(held: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", held.as_raw_fd())
}

/// Whether the paths of [`path_of`] lead to files: an empty root may have no `/proc`.
pub(crate) fn has_proc() -> bool {
    static HAS_PROC: OnceLock<bool> = OnceLock::new();
    *HAS_PROC.get_or_init(|| Path::new("/proc/self/fd").exists())
}

/// A directory that is only held, open for system calls that take a handle: the way without `/proc`.
///
/// # Errors
/// `NOTSUP` if it is not a directory.
pub(crate) fn open_dir(held: impl AsFd) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(held, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| if errno == Errno::NOTDIR { Errno::NOTSUP } else { errno })
}

/// The file type.
pub(crate) fn kind(stat: &Statx) -> FileType {
    FileType::from_raw_mode(stat.stx_mode.into())
}

/// The kind of entry; `None` if the file system does not say.
pub(crate) fn policy_kind(kind: FileType) -> Option<ExistingKind> {
    Some(match kind {
        FileType::RegularFile => ExistingKind::File,
        FileType::Directory => ExistingKind::Dir,
        FileType::Symlink => ExistingKind::Symlink,
        FileType::Fifo => ExistingKind::Fifo,
        FileType::Socket => ExistingKind::Socket,
        FileType::CharacterDevice => ExistingKind::CharDevice,
        FileType::BlockDevice => ExistingKind::BlockDevice,
        FileType::Unknown => return None,
    })
}

pub(crate) fn is_dir(stat: &Statx) -> bool {
    kind(stat) == FileType::Directory
}

pub(crate) fn is_file(stat: &Statx) -> bool {
    kind(stat) == FileType::RegularFile
}

/// The permission bits, with set-ID and sticky bits.
pub(crate) fn mode(stat: &Statx) -> u32 {
    u32::from(stat.stx_mode) & 0o7777
}

/// The device that holds the file.
pub(crate) fn device(stat: &Statx) -> Device {
    (stat.stx_dev_major, stat.stx_dev_minor)
}

/// The device as one number, and the inode number.
pub(crate) fn inode(stat: &Statx) -> (u64, u64) {
    (rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor), stat.stx_ino)
}
