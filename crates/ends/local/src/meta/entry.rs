//! One name's metadata as an [`Entry`].

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;

use haul_core::entry::Xattr;
use haul_core::{Entry, EntryKind, OwnerNames, RelPath, Timestamp};
use haul_index::Stamp;
use rustix::fs::{FileType, OFlags, Statx};
use rustix::io::Errno;

use crate::path::at::At;
use crate::path::held::{hold, hold_name};
use crate::path::stat::{self, ctime, kind, mode, mtime, statx, statx_now};
use crate::path::xattrs::XattrsOf;
use crate::tree::local_tree::LocalTree;

/// The entry at `path`, found at `at`. A symbolic link is followed if the root follows links.
pub(crate) fn entry(
    tree: &LocalTree,
    at: &At,
    path: RelPath,
    names: Option<&OwnerLookup>,
) -> rustix::io::Result<Entry> {
    Ok(find(tree, at, path, names)?.entry)
}

/// The entry that a name stands for.
pub(crate) struct FoundEntry {
    pub(crate) entry: Entry,
    /// By it a later run knows whether a directory still holds the same names.
    pub(crate) stamp: Stamp,
    /// It was found through a symbolic link.
    pub(crate) followed: bool,
}

/// The same with more than the entry.
pub(crate) fn find(
    tree: &LocalTree,
    at: &At,
    path: RelPath,
    names: Option<&OwnerLookup>,
) -> rustix::io::Result<FoundEntry> {
    // Each lookup of a name is a request to a file server: one open handle serves all questions.
    let held = if tree.is_network_fs() && tree.xattr_support.is_likely() && at.name != b"." {
        Some(hold_name(at, OFlags::empty())?)
    } else {
        None
    };
    let stat = match &held {
        Some(held) => {
            tree.root.ops.one();
            statx_now(held)?
        }
        None => statx(at)?,
    };
    if kind(&stat) == FileType::Symlink && tree.root.follows_links() {
        return find_target(tree, at, path, names);
    }
    let kind = kind_of(&stat, || {
        tree.root.ops.one();
        Ok(rustix::fs::readlinkat(&at.dir, &at.name[..], Vec::with_capacity(256))?.into_bytes())
    })?;
    let xattrs = match &held {
        Some(held) if !matches!(kind, EntryKind::Symlink(_)) => tree.xattrs(&XattrsOf::held(held), &stat)?,
        _ => tree.xattrs(&XattrsOf::Name(at), &stat)?,
    };
    Ok(found(&stat, fill(&stat, path, kind, xattrs, names), false))
}

/// The target of a symbolic link. One open handle serves all questions: the link may change in between.
fn find_target(
    tree: &LocalTree,
    at: &At,
    path: RelPath,
    names: Option<&OwnerLookup>,
) -> rustix::io::Result<FoundEntry> {
    let held = hold(|how| tree.root.follow(at, &path, how))?;
    tree.root.ops.one();
    let stat = statx_now(&held)?;
    let kind = kind_of(&stat, || Err(Errno::LOOP))?;
    let xattrs = tree.xattrs(&XattrsOf::held(&held), &stat)?;
    Ok(found(&stat, fill(&stat, path, kind, xattrs, names), true))
}

fn found(stat: &Statx, entry: Entry, followed: bool) -> FoundEntry {
    let stamp = Stamp { dev: entry.dev, ino: entry.ino, mtime: entry.mtime, ctime: ctime(stat) };
    FoundEntry { entry, stamp, followed }
}

fn kind_of(
    stat: &Statx,
    target: impl FnOnce() -> rustix::io::Result<Vec<u8>>,
) -> rustix::io::Result<EntryKind> {
    Ok(match kind(stat) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Dir,
        FileType::Symlink => EntryKind::Symlink(target()?),
        FileType::Fifo => EntryKind::Fifo,
        FileType::Socket => EntryKind::Socket,
        FileType::CharacterDevice => EntryKind::CharDevice(device_number(stat)),
        FileType::BlockDevice => EntryKind::BlockDevice(device_number(stat)),
        FileType::Unknown => return Err(Errno::NOTSUP),
    })
}

/// The device that a device file stands for.
pub(crate) fn device_number(stat: &Statx) -> u64 {
    rustix::fs::makedev(stat.stx_rdev_major, stat.stx_rdev_minor)
}

fn fill(
    stat: &Statx,
    path: RelPath,
    kind: EntryKind,
    xattrs: Vec<Xattr>,
    names: Option<&OwnerLookup>,
) -> Entry {
    let is_file = kind == EntryKind::File;
    let (dev, ino) = stat::inode(stat);
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
        dev,
        ino,
        nlink: stat.stx_nlink,
        allocated: if is_file { stat.stx_blocks * 512 } else { 0 },
        kind,
        xattrs,
    }
}

/// Names of owners and groups, each looked up once.
#[derive(Default)]
pub(crate) struct OwnerLookup {
    users: Mutex<HashMap<u32, Vec<u8>>>,
    groups: Mutex<HashMap<u32, Vec<u8>>>,
}

impl OwnerLookup {
    pub(crate) fn of(&self, uid: u32, gid: u32) -> OwnerNames {
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
