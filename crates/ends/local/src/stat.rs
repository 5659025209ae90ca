//! One name's metadata, as an [`Entry`].

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use haul_core::entry::{Identity, Xattr};
use haul_core::{Entry, EntryKind, Ops, OwnerNames, RelPath, Timestamp};
use haul_index::Stamp;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;
use serde_bytes::ByteBuf;

use super::root::{At, Root};

/// The most that all names or one value of extended attributes may take, in bytes (`XATTR_LIST_MAX` and
/// `XATTR_SIZE_MAX` of Linux).
const XATTR_MAX: usize = 64 * 1024;

/// Attributes that belong to the machine, not to the data: a security label of one host means nothing on another,
/// and `system.nfs4_acl` and its like are views of what mode and owner say already. XFS shows its ACLs a second time
/// under names of its own.
pub(super) fn is_carried(name: &[u8]) -> bool {
    (name.starts_with(b"user.") && !name.starts_with(b"user.haul."))
        || (name.starts_with(b"trusted.") && !name.starts_with(b"trusted.SGI_ACL_"))
        || name == b"security.capability"
        || name == b"system.posix_acl_access"
        || name == b"system.posix_acl_default"
}

/// Looks at `at`, which is the entry at `path` below its root. Does not follow a link.
pub(super) fn entry(root: &Root, at: &At, path: RelPath, names: Option<&Names>) -> rustix::io::Result<Entry> {
    Ok(entry_and_stamp(root, at, path, names)?.0)
}

/// The same, with what tells later whether a folder still holds the same names.
pub(super) fn entry_and_stamp(
    root: &Root,
    at: &At,
    path: RelPath,
    names: Option<&Names>,
) -> rustix::io::Result<(Entry, Stamp)> {
    // Where each look at a name is a question to a server, one serves for all that is to be known of it.
    let held = if root.is_network_fs() && root.has_xattrs() && at.name != b"." {
        Some(at.open(OFlags::PATH, Mode::empty())?)
    } else {
        None
    };
    let stat = match &held {
        Some(held) => {
            root.ops.one();
            statx_now(held)?
        }
        None => statx(at)?,
    };
    let kind = match kind(&stat) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Dir,
        FileType::Symlink => EntryKind::Symlink({
            root.ops.one();
            rustix::fs::readlinkat(&at.dir, &at.name[..], Vec::with_capacity(256))?.into_bytes()
        }),
        FileType::Fifo => EntryKind::Fifo,
        FileType::Socket => EntryKind::Socket,
        FileType::CharacterDevice => EntryKind::CharDevice(device(stat.stx_rdev_major, stat.stx_rdev_minor)),
        FileType::BlockDevice => EntryKind::BlockDevice(device(stat.stx_rdev_major, stat.stx_rdev_minor)),
        FileType::Unknown => return Err(Errno::NOTSUP),
    };
    let xattrs = match &held {
        Some(held) if !matches!(kind, EntryKind::Symlink(_)) => {
            root.xattrs(&XattrsOf::Target(path_of(held).as_bytes()), &stat)?
        }
        _ => root.xattrs(&XattrsOf::Name(&at.proc_path()), &stat)?,
    };
    let ctime = ctime(&stat);
    let entry = fill(&stat, path, kind, xattrs, names);
    let stamp = Stamp { dev: entry.dev, ino: entry.ino, mtime: entry.mtime, ctime };
    Ok((entry, stamp))
}

/// The plain metadata of `at`, without attributes and link target.
pub(super) fn statx(at: &At) -> rustix::io::Result<Statx> {
    at.dir.ops.one();
    rustix::fs::statx(&at.dir, &at.name[..], AtFlags::SYMLINK_NOFOLLOW, wanted())
}

/// The same without the access time: reading changes that, and who asks for it after reading asks the server again.
pub(super) fn statx_compared(at: &At) -> rustix::io::Result<Statx> {
    let wanted = wanted().difference(StatxFlags::ATIME);
    at.dir.ops.one();
    rustix::fs::statx(&at.dir, &at.name[..], AtFlags::SYMLINK_NOFOLLOW, wanted)
}

/// The same of what is held open.
pub(super) fn statx_held(file: impl std::os::fd::AsFd) -> rustix::io::Result<Statx> {
    rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted().difference(StatxFlags::ATIME))
}

/// What an open file is now, without its access time, as above, and without its change time: a further name or another
/// mode changes that, and the content is the same.
pub(super) fn identity(file: impl std::os::fd::AsFd) -> rustix::io::Result<Identity> {
    let wanted = StatxFlags::SIZE | StatxFlags::MTIME | StatxFlags::INO;
    let now = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted)?;
    Ok(Identity { len: now.stx_size, mtime: mtime(&now), ctime: None, ino: now.stx_ino })
}

/// The plain metadata of an open file, as this machine knows it: from opening it, or from what was done with it since.
pub(super) fn statx_file(file: impl std::os::fd::AsFd) -> rustix::io::Result<Statx> {
    rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, wanted())
}

/// The plain metadata of an open file, as it is now.
pub(super) fn statx_now(file: impl std::os::fd::AsFd) -> rustix::io::Result<Statx> {
    rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted())
}

fn wanted() -> StatxFlags {
    StatxFlags::BASIC_STATS
}

/// When the content was last modified.
pub(super) fn mtime(stat: &Statx) -> Timestamp {
    Timestamp { sec: stat.stx_mtime.tv_sec, nsec: stat.stx_mtime.tv_nsec }
}

/// When the inode was last changed.
fn ctime(stat: &Statx) -> Timestamp {
    Timestamp { sec: stat.stx_ctime.tv_sec, nsec: stat.stx_ctime.tv_nsec }
}

fn device(major: u32, minor: u32) -> u64 {
    rustix::fs::makedev(major, minor)
}

/// The kernel's own link to what is held open: calls that take a path reach exactly that.
pub(super) fn path_of(held: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", held.as_raw_fd())
}

/// What kind of thing it is.
pub(super) fn kind(stat: &Statx) -> FileType {
    FileType::from_raw_mode(stat.stx_mode.into())
}

pub(super) fn is_dir(stat: &Statx) -> bool {
    kind(stat) == FileType::Directory
}

pub(super) fn is_file(stat: &Statx) -> bool {
    kind(stat) == FileType::RegularFile
}

/// Its permission bits, with set-ID and sticky bits.
pub(super) fn mode(stat: &Statx) -> u32 {
    u32::from(stat.stx_mode) & 0o7777
}

/// Its file system and number.
pub(super) fn inode(stat: &Statx) -> (u64, u64) {
    (device(stat.stx_dev_major, stat.stx_dev_minor), stat.stx_ino)
}

fn fill(stat: &Statx, path: RelPath, kind: EntryKind, xattrs: Vec<Xattr>, names: Option<&Names>) -> Entry {
    let is_file = kind == EntryKind::File;
    Entry {
        path,
        len: if is_file { stat.stx_size } else { 0 },
        mtime: mtime(stat),
        atime: Timestamp { sec: stat.stx_atime.tv_sec, nsec: stat.stx_atime.tv_nsec },
        ctime: Some(ctime(stat)),
        mode: mode(stat),
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        names: names.map(|names| Box::new(names.of(stat.stx_uid, stat.stx_gid))),
        dev: device(stat.stx_dev_major, stat.stx_dev_minor),
        ino: stat.stx_ino,
        nlink: stat.stx_nlink,
        allocated: if is_file { stat.stx_blocks * 512 } else { 0 },
        kind,
        xattrs,
    }
}

/// Whose attributes are read.
pub(super) enum XattrsOf<'a> {
    /// An open file's.
    File(BorrowedFd<'a>),
    /// Those of what a path leads to.
    Target(&'a [u8]),
    /// Those of a path's last name itself, be it a link.
    Name(&'a [u8]),
}

impl XattrsOf<'_> {
    fn list(&self, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        match self {
            Self::File(fd) => rustix::fs::flistxattr(fd, buffer),
            Self::Target(path) => rustix::fs::listxattr(*path, buffer),
            Self::Name(path) => rustix::fs::llistxattr(*path, buffer),
        }
    }

    fn get(&self, name: &[u8], buffer: &mut [u8]) -> rustix::io::Result<usize> {
        match self {
            Self::File(fd) => rustix::fs::fgetxattr(fd, name, buffer),
            Self::Target(path) => rustix::fs::getxattr(*path, name, buffer),
            Self::Name(path) => rustix::fs::lgetxattr(*path, name, buffer),
        }
    }
}

/// The carried attributes, sorted by name. A file system without attributes has none.
pub(super) fn read_xattrs(ops: &Ops, of: &XattrsOf<'_>) -> rustix::io::Result<Vec<Xattr>> {
    match ask_xattrs(ops, of) {
        Err(Errno::NOTSUP) => Ok(Vec::new()),
        other => other,
    }
}

/// The same; a file system without attributes is an error.
pub(super) fn ask_xattrs(ops: &Ops, of: &XattrsOf<'_>) -> rustix::io::Result<Vec<Xattr>> {
    let mut short = [0_u8; 1024];
    let long;
    ops.one();
    let names = match of.list(&mut short) {
        Ok(0) | Err(Errno::NOENT) => return Ok(Vec::new()),
        Ok(n) => &short[..n],
        Err(Errno::RANGE) => {
            let mut buffer = vec![0_u8; XATTR_MAX];
            let n = of.list(&mut buffer)?;
            buffer.truncate(n);
            long = buffer;
            &long[..]
        }
        Err(e) => return Err(e),
    };
    let mut found = Vec::new();
    for name in names.split(|b| *b == 0).filter(|name| is_carried(name)) {
        let mut value = vec![0_u8; 256];
        ops.one();
        let n = match of.get(name, &mut value) {
            Err(Errno::RANGE) => {
                value.resize(XATTR_MAX, 0);
                of.get(name, &mut value)
            }
            other => other,
        };
        match n {
            Ok(n) => {
                value.truncate(n);
                found.push((ByteBuf::from(name.to_vec()), ByteBuf::from(value)));
            }
            // Removed since it was listed, or not ours to read (trusted.* without the privilege).
            Err(Errno::NODATA | Errno::PERM | Errno::ACCESS) => {}
            Err(e) => return Err(e),
        }
    }
    found.sort();
    Ok(found)
}

/// Names of owners and groups, each looked up once.
#[derive(Default)]
pub(super) struct Names {
    users: Mutex<HashMap<u32, Vec<u8>>>,
    groups: Mutex<HashMap<u32, Vec<u8>>>,
}

impl Names {
    pub(super) fn of(&self, uid: u32, gid: u32) -> OwnerNames {
        let mut users = self.users.lock();
        let mut groups = self.groups.lock();
        let user = users.entry(uid).or_insert_with(|| {
            uzers::get_user_by_uid(uid).map(|u| u.name().as_bytes().to_vec()).unwrap_or_default()
        });
        let group = groups.entry(gid).or_insert_with(|| {
            uzers::get_group_by_gid(gid).map(|g| g.name().as_bytes().to_vec()).unwrap_or_default()
        });
        OwnerNames { user: user.clone(), group: group.clone() }
    }
}
