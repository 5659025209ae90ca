//! Setting metadata, and comparing it.

use haul_core::sync::Mutex;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use haul_core::entry::Xattr;
use haul_core::owner_map::OwnerName;
use haul_core::path::printable;
use haul_core::{Changes, Entry, EntryKind, MetaNote, Ops, Preserve, RelPath, SinkOptions};
use rustix::fs::{FileType, Mode, OFlags, Statx};
use rustix::io::Errno;

use super::ids::id_of;
use super::new_mode::new_mode;
use super::target::MetaTarget;
use super::times::{self, Times};
use crate::path::at::{At, REPLACED};
use crate::path::held::hold_name;
use crate::path::stat;
use crate::path::xattrs::{XattrsOf, is_carried};
use crate::tree::local_tree::LocalTree;
use haul_ends::metadata_warnings::MetadataWarnings;

/// Numeric owners and groups by name, each looked up once.
type Ids = HashMap<OwnerName, Option<u32>>;

/// Sets metadata, and collects warnings for metadata that could not be set.
pub(crate) struct MetadataSetter {
    ops: Arc<Ops>,
    /// Compares modification times.
    pub(crate) times: Times,
    /// Which metadata is compared and set.
    pub(crate) preserve: Preserve,
    by_name: bool,
    /// All differences are told.
    itemize: bool,
    ids: Mutex<Ids>,
    warnings: MetadataWarnings,
}

/// An open file that was written just now.
pub(crate) struct WrittenFile<'a> {
    pub(crate) file: &'a File,
    /// Its metadata when it was opened.
    pub(crate) now: &'a Statx,
    /// It is new and inherited no attributes.
    pub(crate) has_no_xattrs: bool,
    /// The file whose mode it keeps if permissions are not taken over.
    pub(crate) replaces: Replaces<'a>,
}

/// The entry that a written file replaces.
#[derive(Clone, Copy)]
pub(crate) enum Replaces<'a> {
    /// It has its final name, and had it before.
    Itself,
    /// It has its final name, which is new.
    Nothing(&'a At),
    /// It will replace the entry at its final name, if there is one.
    Name(&'a At),
}

/// The file that a name must stand for when metadata is set by name. Anybody who may write into the directory can put
/// another file there at any moment, which would get owner and mode.
#[derive(Clone, Copy)]
pub(crate) enum ExpectedFile {
    /// The inode that was compared.
    Inode(u64, u64),
    /// A file made a moment before: of this type, and with one name.
    Made(FileType),
}

impl ExpectedFile {
    fn is(self, now: &Statx) -> bool {
        match self {
            Self::Inode(dev, ino) => stat::inode(now) == (dev, ino),
            Self::Made(kind) => stat::kind(now) == kind && now.stx_nlink == 1,
        }
    }
}

/// Whether inode numbers are stable on this file system. On FAT, overlays and most file systems in user space, a
/// directory can get another number at any time, so only its type is compared there.
fn has_stable_inodes(file: BorrowedFd<'_>) -> bool {
    // ext2 to ext4, XFS, Btrfs, tmpfs, F2FS, NFS (`linux/magic.h`), OpenZFS and bcachefs.
    const STABLE: [u32; 8] =
        [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0xF2F5_2010, 0x6969, 0x2FC1_2FC1, 0xCA45_1A4E];
    // On an unknown file system, another number counts as another directory.
    rustix::fs::fstatfs(file).map_or(true, |fs| STABLE.contains(&(fs.f_type as u32)))
}

/// When the times of a file are set.
#[derive(Clone, Copy)]
enum SetTimes<'a> {
    Always,
    /// Later, by [`MetadataSetter::finish`].
    Later,
    /// If they differ from those of the file at this place, or something else was set.
    IfNeeded(&'a At),
}

impl MetadataSetter {
    pub(crate) fn new(options: &SinkOptions, ops: Arc<Ops>) -> Self {
        Self {
            ops,
            times: Times::new(options),
            preserve: options.preserve,
            by_name: options.owner_by_name,
            itemize: options.itemize,
            ids: Mutex::default(),
            warnings: MetadataWarnings::default(),
        }
    }

    /// The numeric owner and group of `entry` on this machine.
    fn owner(&self, entry: &Entry) -> (u32, u32) {
        let Some(names) = entry.names.as_ref().filter(|_| self.by_name) else {
            return (entry.uid, entry.gid);
        };
        let mut ids = self.ids.lock();
        let mut id = |is_user: bool, name: &[u8], number: u32| {
            let name = OwnerName { is_user, name: name.to_vec() };
            ids.entry(name).or_insert_with_key(id_of).unwrap_or(number)
        };
        (id(true, &names.user, entry.uid), id(false, &names.group, entry.gid))
    }

    /// Sets all metadata of a file that was written, its times last.
    pub(crate) fn set_written(&self, file: &WrittenFile<'_>, entry: &Entry) -> rustix::io::Result<()> {
        self.set_file(file, entry, SetTimes::Always)
    }

    /// The same without the times, which mark the file as complete later.
    pub(crate) fn set_written_without_times(
        &self,
        file: &WrittenFile<'_>,
        entry: &Entry,
    ) -> rustix::io::Result<()> {
        self.set_file(file, entry, SetTimes::Later)
    }

    fn set_file(&self, file: &WrittenFile<'_>, entry: &Entry, times: SetTimes<'_>) -> rustix::io::Result<()> {
        let target = MetaTarget::File(file.file.as_fd());
        let entry = self.preserve.with_mode(entry, || mode_beside(file, entry));
        self.apply(&target, file.now, file.has_no_xattrs, &entry, times).map(|_| ())
    }

    /// Sets the metadata that differs from `entry` by name, if the name stands for the expected file; never on the
    /// target of a symbolic link. Whether something was set. Refusals become warnings.
    ///
    /// # Errors
    /// [`REPLACED`] if the name stands for another file.
    pub(crate) fn set_named(
        &self,
        at: &At,
        expected: ExpectedFile,
        entry: &Entry,
    ) -> rustix::io::Result<bool> {
        let only = if entry.is_dir() { OFlags::DIRECTORY } else { OFlags::empty() };
        let held = hold_name(at, only).map_err(|errno| match errno {
            Errno::NOTDIR | Errno::LOOP => REPLACED,
            other => other,
        })?;
        let target = MetaTarget::of(&held);
        self.ops.one();
        let now = stat::statx_held(target.fd())?;
        if !expected.is(&now) && (!entry.is_dir() || has_stable_inodes(target.fd())) {
            return Err(REPLACED);
        }
        self.apply(&target, &now, false, entry, SetTimes::IfNeeded(at))
    }

    /// Sets the metadata that differs from `now` and the current attributes. Whether something was set.
    fn apply(
        &self,
        target: &MetaTarget<'_>,
        now: &Statx,
        has_no_xattrs: bool,
        entry: &Entry,
        times: SetTimes<'_>,
    ) -> rustix::io::Result<bool> {
        let (mut changed, mode) = self.set_owner(target, now, entry)?;
        // After the owner: a new owner clears file capabilities, which are an attribute.
        let needless = has_no_xattrs || !self.preserve.has_any_xattr();
        let xattrs = if needless { Vec::new() } else { target.xattrs(&self.ops)? };
        changed |= self.set_xattrs(target, &xattrs, entry)?;
        // A new owner clears set-ID bits, and a default ACL may have changed the mode.
        let mode_now = || stat::statx_file(target.fd()).map(|now| stat::mode(&now));
        let before = if changed { mode_now()? } else { stat::mode(now) };
        if !matches!(entry.kind, EntryKind::Symlink(_)) && before != mode {
            self.ops.one();
            match target.chmod(mode) {
                Ok(()) => changed = true,
                // The file system sets the modes of new entries itself.
                Err(errno) if !self.preserve.perms && is_refusal(errno) => {}
                Err(errno) => self.warn_refusal("mode", errno, &entry.path)?,
            }
        }
        let due = match times {
            SetTimes::Always => true,
            SetTimes::Later => false,
            SetTimes::IfNeeded(at) => changed || !self.times.is_same(entry.mtime, at, now),
        };
        if due && self.preserve.has_times(&entry.kind) {
            changed |= self.set_times(target, entry)?;
        }
        Ok(changed)
    }

    /// Sets the owner. Whether it was set, and the mode to be set: without set-ID bits if the owner was refused.
    fn set_owner(
        &self,
        target: &MetaTarget<'_>,
        now: &Statx,
        entry: &Entry,
    ) -> rustix::io::Result<(bool, u32)> {
        let (uid, gid, mode) = self.owner_and_mode(now, entry);
        if (now.stx_uid, now.stx_gid) == (uid, gid) {
            return Ok((false, mode));
        }
        self.ops.one();
        let Err(errno) = target.chown(uid, gid) else { return Ok((true, mode)) };
        // Users who may not give files away may often still set the group.
        let changed = now.stx_gid != gid && target.chown(now.stx_uid, gid).is_ok();
        self.warn_refusal("owner", errno, &entry.path)?;
        Ok((changed, mode & !0o6000))
    }

    /// The owner, group and mode that an entry is to have, whose plain metadata is `now`.
    pub(super) fn owner_and_mode(&self, now: &Statx, entry: &Entry) -> (u32, u32, u32) {
        let wanted = self.owner(entry);
        let ids = self.preserve.ids(wanted, (now.stx_uid, now.stx_gid));
        (ids.0, ids.1, self.preserve.mode(entry, wanted, ids))
    }

    /// Sets the times of a file that is complete otherwise.
    pub(crate) fn finish(&self, file: &File, entry: &Entry) -> rustix::io::Result<()> {
        self.set_times(&MetaTarget::File(file.as_fd()), entry).map(|_| ())
    }

    /// Whether the times were set.
    fn set_times(&self, target: &MetaTarget<'_>, entry: &Entry) -> rustix::io::Result<bool> {
        self.ops.one();
        let set = target.set_times(entry);
        match &set {
            Err(errno) => self.warn_refusal("times", *errno, &entry.path)?,
            Ok(()) if times::is_unusual(entry.mtime) => {
                self.ops.one();
                let kept = stat::statx_now(target.fd()).map(|now| stat::mtime(&now));
                if kept.is_ok_and(|kept| times::is_replaced(entry.mtime, kept)) {
                    let cause = "the file system keeps no such time, and took the nearest that it keeps";
                    self.warn("times", cause, &entry.path);
                }
            }
            Ok(()) => {}
        }
        Ok(set.is_ok())
    }

    fn set_xattrs(&self, target: &MetaTarget<'_>, now: &[Xattr], entry: &Entry) -> rustix::io::Result<bool> {
        let now: Vec<&Xattr> = self.preserve.xattrs_of(now).collect();
        let wanted: Vec<&Xattr> = self.preserve.xattrs_of(&entry.xattrs).collect();
        if now == wanted {
            return Ok(false);
        }
        // A source may send any name: labels and the kernel's own marks of this machine stay as they are.
        let (carried, others): (Vec<&Xattr>, Vec<&Xattr>) =
            wanted.iter().copied().partition(|(name, _)| is_carried(name));
        for (name, _) in others {
            self.warn_refusal(&attribute(name), Errno::NOTSUP, &entry.path)?;
        }
        let mut changed = false;
        for (name, _) in now.iter().filter(|(name, _)| !wanted.iter().any(|(wanted, _)| wanted == name)) {
            self.ops.one();
            changed |= self.tried_xattr(name, target.remove_xattr(name), entry)?;
        }
        for (name, value) in carried.into_iter().filter(|wanted| !now.contains(wanted)) {
            self.ops.one();
            changed |= self.tried_xattr(name, target.set_xattr(name, value), entry)?;
        }
        Ok(changed)
    }

    /// Whether an attribute was set or removed.
    fn tried_xattr(
        &self,
        name: &[u8],
        result: rustix::io::Result<()>,
        entry: &Entry,
    ) -> rustix::io::Result<bool> {
        let Err(errno) = result else { return Ok(true) };
        // File systems have little space for attributes: one that does not fit is skipped.
        if matches!(errno, Errno::NOSPC | Errno::DQUOT | Errno::TOOBIG | Errno::NODATA) {
            self.warn(&attribute(name), &std::io::Error::from(errno).to_string(), &entry.path);
        } else {
            self.warn_refusal(&attribute(name), errno, &entry.path)?;
        }
        Ok(false)
    }

    /// Warns of metadata that the user may not set or the file system does not keep.
    ///
    /// # Errors
    /// Any other error: the disk or a server failed, and the entry must not count as done.
    fn warn_refusal(&self, what: &str, errno: Errno, path: &RelPath) -> rustix::io::Result<()> {
        if !is_refusal(errno) {
            return Err(errno);
        }
        self.warn(what, &std::io::Error::from(errno).to_string(), path);
        Ok(())
    }

    pub(crate) fn warn(&self, what: &str, cause: &str, path: &RelPath) {
        self.warnings.note(what, cause, path);
    }

    /// Warns of something that concerns no entry.
    pub(crate) fn warn_without_entry(&self, what: &str, cause: &str) {
        self.warnings.note_without_entry(what, cause);
    }

    /// All warnings, once for each kind.
    pub(crate) fn warnings(&self) -> Vec<MetaNote> {
        self.warnings.all()
    }

    /// How the metadata of the file at `at`, whose plain metadata is `now`, differs from that of `entry`: all of it with
    /// `itemize`, else at least one attribute if any differs.
    pub(crate) fn changes(
        &self,
        tree: &LocalTree,
        at: &At,
        now: &Statx,
        entry: &Entry,
    ) -> rustix::io::Result<Changes> {
        let preserve = &self.preserve;
        let has_mode = !matches!(entry.kind, EntryKind::Symlink(_)) && preserve.perms;
        let (uid, gid, mode) = self.owner_and_mode(now, entry);
        let mut changes = Changes::OWNER.when(now.stx_uid != uid)
            | Changes::GROUP.when(now.stx_gid != gid)
            | Changes::MODE.when(has_mode && stat::mode(now) != mode);
        if changes.is_empty() || self.itemize {
            changes |= Changes::TIME
                .when(preserve.has_times(&entry.kind) && !self.times.is_same(entry.mtime, at, now));
        }
        if preserve.has_any_xattr() && (changes.is_empty() || self.itemize) {
            let there = tree.xattrs(&XattrsOf::Name(at), now)?;
            let wanted = preserve.xattrs_of(&entry.xattrs).filter(|(name, _)| is_carried(name));
            changes |= preserve.xattr_changes(&there, &wanted.collect::<Vec<_>>());
        }
        Ok(changes)
    }

    /// The metadata that is set of a directory at the end. `is_made`: this run has made it, and until the end it is
    /// private, unless permissions are not taken over.
    pub(crate) fn of_dir<'a>(&self, at: &At, now: &Statx, entry: &'a Entry, is_made: bool) -> Cow<'a, Entry> {
        self.preserve.with_mode(entry, || {
            if !is_made {
                return stat::mode(now);
            }
            // Entries below a directory with this bit inherit it.
            let mode = new_mode(at, entry) | stat::mode(now) & Mode::SGID.as_raw_mode();
            // A killed run cannot set it, and the next one would keep a private mode. If this fails, it is set later.
            let dir = at.open(OFlags::PATH | OFlags::DIRECTORY, Mode::empty());
            let _ = dir.and_then(|dir| MetaTarget::Held(dir.as_fd()).chmod(mode | Mode::RWXU.as_raw_mode()));
            mode
        })
    }
}

/// The mode of a file that was written, if permissions are not taken over.
fn mode_beside(file: &WrittenFile<'_>, entry: &Entry) -> u32 {
    match file.replaces {
        Replaces::Itself => stat::mode(file.now),
        Replaces::Nothing(at) => new_mode(at, entry),
        Replaces::Name(at) => match stat::statx(at) {
            Ok(now) if stat::is_file(&now) => Preserve::replacing_mode(stat::mode(&now)),
            _ => new_mode(at, entry),
        },
    }
}

fn attribute(name: &[u8]) -> String {
    format!("attribute {}", printable(name))
}

/// Whether the error means that the user may not set something, or that the file system does not keep it.
fn is_refusal(errno: Errno) -> bool {
    let refusals = [
        Errno::PERM,
        Errno::ACCESS,
        Errno::NOTSUP,
        Errno::NOSYS,
        Errno::INVAL,
        Errno::OVERFLOW,
        Errno::RANGE,
    ];
    refusals.contains(&errno)
}

#[cfg(test)]
#[path = "metadata_tests.rs"]
mod tests;
