//! Which differences of metadata count where nothing is set (`haul verify`): those that a copy could remove. The others
//! are counted as warnings, like metadata that a copy could not set.

use std::os::fd::AsFd;

use haul_core::entry::Xattr;
use haul_core::{Changes, Entry, RelPath};
use rustix::fs::{Mode, OFlags, Statx};
use rustix::thread::{CapabilitySet, capabilities};

use super::metadata::MetadataSetter;
use super::times::may_be_rounded;
use crate::path::at::At;
use crate::path::stat;
use crate::path::xattrs::{XattrsOf, is_carried, is_supported};
use crate::tree::local_tree::LocalTree;

/// FAT and exFAT (`linux/magic.h`). They have neither owners nor modes, and no time of the root.
const FAT: [u32; 2] = [0x4d44, 0x2011_BAB0];
/// SMB, SMB2, file systems in user space, NTFS and shared directories of a virtual machine: some mounts of them give
/// all entries one owner and one mode.
const OFTEN_FIXED: [u32; 6] = [0xFF53_4D42, 0xFE53_4D42, 0x6573_5546, 0x5346_544e, 0x7366_746e, 0x786f_4256];
const NFS: u32 = 0x6969;
/// The owner that an NFS server gives to the files of root, by default.
const NOBODY: [u32; 2] = [65534, u32::MAX - 1];
/// The inode number of the root of FAT and exFAT.
const FAT_ROOT: u64 = 1;
/// Set-user-ID and set-group-ID.
const SET_ID: u32 = 0o6000;

const KEEPS_NONE: &str = "the file system keeps none";
const MAY_KEEP_NONE: &str = "the file system may keep none";
const ROOT_ALONE: &str = "only root may set it there";

/// For each kind of metadata of an entry: why it cannot be set; `None` if it can.
struct MetadataLimits {
    /// The type of the file system.
    magic: u32,
    owner: Option<&'static str>,
    group: Option<&'static str>,
    mode: Option<&'static str>,
    time: Option<&'static str>,
}

impl MetadataSetter {
    /// As [`MetadataSetter::changes`], without the differences that cannot be removed here, which become warnings.
    pub(crate) fn kept_changes(
        &self,
        tree: &LocalTree,
        at: &At,
        now: &Statx,
        entry: &Entry,
    ) -> rustix::io::Result<Changes> {
        let mut changes = self.changes(tree, at, now, entry)?;
        if changes.is_empty() {
            return Ok(changes);
        }
        let limits = limits(tree, at, now, entry.gid);
        let mut has_other_owner = false;
        for (change, what, limit) in
            [(Changes::OWNER, "owner", limits.owner), (Changes::GROUP, "group", limits.group)]
        {
            if let Some(cause) = limit.filter(|_| changes.has(change)) {
                self.warn(what, cause, &entry.path);
                changes = changes.without(change);
                has_other_owner = true;
            }
        }
        if has_other_owner && changes.has(Changes::MODE) {
            // A copy drops these bits where it cannot set the owner.
            let (.., mode) = self.owner_and_mode(now, entry);
            changes = changes.without(Changes::MODE.when(stat::mode(now) == mode & !SET_ID));
        }
        for (change, what, limit) in
            [(Changes::MODE, "mode", limits.mode), (Changes::TIME, "times", limits.time)]
        {
            if let Some(cause) = limit.filter(|_| changes.has(change)) {
                self.warn(what, cause, &entry.path);
                changes = changes.without(change);
            }
        }
        if changes.has(Changes::TIME)
            && (OFTEN_FIXED.contains(&limits.magic) || limits.magic == NFS)
            && may_be_rounded(entry.mtime, stat::mtime(now))
        {
            self.warn("fractions of times", MAY_KEEP_NONE, &entry.path);
            changes = changes.without(Changes::TIME);
        }
        let attributes = Changes::ACL | Changes::XATTR;
        if changes.without(attributes) != changes {
            changes = changes.without(attributes) | self.kept_attributes(tree, at, now, entry)?;
        }
        Ok(changes)
    }

    /// `changes` of an entry without those that this user may not make. Setting its metadata later warns of them.
    pub(crate) fn permitted_changes(&self, changes: Changes, now: &Statx, entry: &Entry) -> Changes {
        let (uid, gid, mode) = self.owner_and_mode(now, entry);
        let changes = if may_change(now) {
            changes
        } else {
            changes.without(Changes::MODE | Changes::TIME | Changes::ACL)
        };
        if may_give_away() || (now.stx_uid, now.stx_gid) == (uid, gid) {
            return changes;
        }
        let without_owner = changes.without(Changes::OWNER);
        let permitted =
            if may_give_to_group(now, gid) { without_owner } else { without_owner.without(Changes::GROUP) };
        // These bits are dropped where the owner cannot be set.
        permitted.without(Changes::MODE.when(stat::mode(now) == mode & !SET_ID))
    }

    /// How the attributes differ that can be set here.
    fn kept_attributes(
        &self,
        tree: &LocalTree,
        at: &At,
        now: &Statx,
        entry: &Entry,
    ) -> rustix::io::Result<Changes> {
        let of = XattrsOf::Name(at);
        let there: Vec<Xattr> = self.preserve.xattrs_of(&tree.xattrs(&of, now)?).cloned().collect();
        let wanted = self.preserve.xattrs_of(&entry.xattrs).filter(|(name, _)| is_carried(name));
        let (mut kept, mut left_out) = (Vec::new(), Vec::new());
        for one in wanted {
            let cause = if there.contains(one) {
                None
            } else if !is_supported(&tree.root.ops, &of, &one.0) {
                Some(KEEPS_NONE)
            } else if !is_root() && is_privileged(&one.0) {
                Some(ROOT_ALONE)
            } else {
                None
            };
            match cause {
                None => kept.push(one),
                Some(cause) => {
                    let acl = one.0.starts_with(b"system.posix_acl_");
                    self.warn(if acl { "ACLs" } else { "attributes" }, cause, &entry.path);
                    left_out.push(&one.0);
                }
            }
        }
        let there: Vec<Xattr> = there.into_iter().filter(|(name, _)| !left_out.contains(&name)).collect();
        Ok(self.preserve.xattr_changes(&there, &kept))
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this user may set mode, times and ACL of the entry whose plain metadata is `now`.
fn may_change(now: &Statx) -> bool {
    let may_change_all = || {
        capabilities(None).map_or_else(|_| is_root(), |sets| sets.effective.contains(CapabilitySet::FOWNER))
    };
    now.stx_uid == rustix::process::geteuid().as_raw() || may_change_all()
}

/// Whether this process may set any owner and group.
fn may_give_away() -> bool {
    capabilities(None).map_or_else(|_| is_root(), |sets| sets.effective.contains(CapabilitySet::CHOWN))
}

/// Whether this user may give the file, whose plain metadata is `now`, to the group.
fn may_give_to_group(now: &Statx, gid: u32) -> bool {
    now.stx_uid == rustix::process::geteuid().as_raw() && is_member(gid)
}

/// Whether only root may set the attribute.
fn is_privileged(name: &[u8]) -> bool {
    name.starts_with(b"trusted.") || name.starts_with(b"security.")
}

/// The limits for the entry at `at`, whose plain metadata is `now`, if it is to have the group `gid`.
fn limits(tree: &LocalTree, at: &At, now: &Statx, gid: u32) -> MetadataLimits {
    let magic = magic(at, now);
    if FAT.contains(&magic) {
        let is_fat_root = stat::is_dir(now) && now.stx_ino == FAT_ROOT;
        return MetadataLimits {
            magic,
            owner: Some(KEEPS_NONE),
            group: Some(KEEPS_NONE),
            mode: Some(KEEPS_NONE),
            time: is_fat_root.then_some(KEEPS_NONE),
        };
    }
    let (mut owner, mut group, mut mode) = (None, None, None);
    if OFTEN_FIXED.contains(&magic)
        && let Some(root) = tree.root.dir(&RelPath::root(), false).and_then(stat::statx_file).ok()
    {
        // An entry with another owner or mode than the root shows that they are kept.
        let of_root = stat::mode(&root);
        let is_fixed = [of_root, of_root & 0o666].contains(&stat::mode(now));
        owner = (now.stx_uid == root.stx_uid).then_some(MAY_KEEP_NONE);
        group = (now.stx_gid == root.stx_gid).then_some(MAY_KEEP_NONE);
        mode = is_fixed.then_some(MAY_KEEP_NONE);
    }
    if may_give_away() {
        let mapped = "the server gives the files of root to another user";
        let is_mapped = |id: u32| (magic == NFS && NOBODY.contains(&id)).then_some(mapped);
        owner = owner.or_else(|| is_mapped(now.stx_uid));
        group = group.or_else(|| is_mapped(now.stx_gid));
    } else {
        owner = owner.or(Some(ROOT_ALONE));
        let cause = "this user may not set it there";
        group = group.or((!may_give_to_group(now, gid)).then_some(cause));
    }
    MetadataLimits { magic, owner, group, mode, time: None }
}

/// Whether this user is in the group.
fn is_member(gid: u32) -> bool {
    let groups = rustix::process::getgroups().unwrap_or_default();
    rustix::process::getegid().as_raw() == gid || groups.iter().any(|group| group.as_raw() == gid)
}

/// The type of the file system of an entry; 0 if it is not known.
fn magic(at: &At, now: &Statx) -> u32 {
    at.dir.ops.one();
    // A directory may be on another file system than the one above it.
    let dir = stat::is_dir(now).then(|| at.open(OFlags::PATH | OFlags::DIRECTORY, Mode::empty()));
    let found = match dir {
        Some(Ok(dir)) => rustix::fs::fstatfs(dir.as_fd()),
        _ => rustix::fs::fstatfs(&at.dir),
    };
    found.map_or(0, |found| found.f_type as u32)
}
