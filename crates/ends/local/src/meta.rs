//! Owners, attributes, modes and times.

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use haul_core::entry::Xattr;
use haul_core::{Entry, EntryKind, MetaNote, Ops, RelPath, SinkOptions, Timestamp};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Statx, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::root::{At, REPLACED, Root};
use super::stage::Staged;
use super::stat;
use super::times::{self, Times};

/// Numbers of owners (`true`) and groups by name, each looked up once.
type Ids = HashMap<(bool, Vec<u8>), Option<u32>>;

/// Sets metadata, and remembers what could not be set.
pub(super) struct Metadata {
    ops: Arc<Ops>,
    /// Compares modification times.
    pub(super) times: Times,
    by_name: bool,
    ids: Mutex<Ids>,
    notes: Mutex<HashMap<(String, String), MetaNote>>,
}

/// What the metadata is set on.
pub(super) enum On<'a> {
    /// A file that is staged.
    File(&'a Staged),
    /// The same where its times come later.
    New(&'a Staged),
    /// Anything, by name, if it is what is expected there; never a link's target.
    Name(&'a At, Expected),
}

/// What has to have a name for metadata to be set by it: whoever may write into the folder can put something else there
/// at any moment, and what it stands for would get owner and mode.
#[derive(Clone, Copy)]
pub(super) enum Expected {
    /// The inode that was looked at.
    Inode(u64, u64),
    /// What was made a moment before: of this kind, and with one name.
    Made(FileType),
}

/// Whether files keep their inode numbers on this file system as long as they are there. On FAT, overlays and most of those
/// in user space a folder can get another one at any time; of such a folder its kind has to do.
fn keeps_numbers(file: BorrowedFd<'_>) -> bool {
    // ext2 to ext4, XFS, Btrfs, tmpfs, F2FS, NFS (`linux/magic.h`), OpenZFS and bcachefs.
    const KEEPING: [u32; 8] =
        [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0xF2F5_2010, 0x6969, 0x2FC1_2FC1, 0xCA45_1A4E];
    // Where it cannot be asked, what differs counts as another one.
    rustix::fs::fstatfs(file).map_or(true, |fs| KEEPING.contains(&(fs.f_type as u32)))
}

impl Expected {
    fn is(self, now: &Statx) -> bool {
        match self {
            Self::Inode(dev, ino) => stat::inode(now) == (dev, ino),
            Self::Made(kind) => stat::kind(now) == kind && now.stx_nlink == 1,
        }
    }
}

impl Metadata {
    pub(super) fn new(options: &SinkOptions, ops: Arc<Ops>) -> Self {
        let (times, by_name) = (Times::new(options), options.owner_by_name);
        Self { ops, times, by_name, ids: Mutex::default(), notes: Mutex::default() }
    }

    /// The numeric owner and group that `entry` is to have here.
    fn owner(&self, entry: &Entry) -> (u32, u32) {
        let Some(names) = entry.names.as_ref().filter(|_| self.by_name) else {
            return (entry.uid, entry.gid);
        };
        let mut ids = self.ids.lock();
        let mut id = |is_user: bool, name: &[u8], number: u32| {
            let known = ids.entry((is_user, name.to_vec())).or_insert_with(|| {
                let name = OsStr::from_bytes(name);
                if is_user {
                    uzers::get_user_by_name(name).map(|user| user.uid())
                } else {
                    uzers::get_group_by_name(name).map(|group| group.gid())
                }
            });
            known.unwrap_or(number)
        };
        (id(true, &names.user, entry.uid), id(false, &names.group, entry.gid))
    }

    /// Sets everything that differs from `entry`, times last (always, on a file that was just written). Returns whether something was changed. What cannot
    /// be set is noted.
    pub(super) fn set(&self, on: &On<'_>, entry: &Entry) -> rustix::io::Result<bool> {
        let is_link = matches!(entry.kind, EntryKind::Symlink(_));
        let held;
        let target = match on {
            On::File(staged) | On::New(staged) => Target::File(staged.file.as_fd()),
            On::Name(at, _) => {
                let only = if entry.is_dir() { OFlags::DIRECTORY } else { OFlags::empty() };
                held = at.open(OFlags::PATH | only, Mode::empty()).map_err(|errno| match errno {
                    Errno::NOTDIR | Errno::LOOP => REPLACED,
                    other => other,
                })?;
                Target::Held(held.as_fd())
            }
        };
        let now = match on {
            On::File(staged) | On::New(staged) => staged.now,
            On::Name(_, expected) => {
                self.ops.one();
                let now = stat::statx_held(target.fd())?;
                if !expected.is(&now) && (!entry.is_dir() || keeps_numbers(target.fd())) {
                    return Err(REPLACED);
                }
                now
            }
        };
        let mut changed = false;
        let (uid, gid) = self.owner(entry);
        let mut mode = entry.mode;
        let chown = (now.stx_uid, now.stx_gid) != (uid, gid);
        if chown {
            self.ops.one();
            match target.chown(uid, gid) {
                Ok(()) => changed = true,
                Err(errno) => {
                    // Who may not give files away may often still set the group.
                    if now.stx_gid != gid && target.chown(now.stx_uid, gid).is_ok() {
                        changed = true;
                    }
                    mode &= !0o6000;
                    self.note("owner", errno, &entry.path)?;
                }
            }
        }
        let there = match on {
            On::File(staged) | On::New(staged) if staged.is_bare() => Vec::new(),
            _ => target.xattrs(&self.ops)?,
        };
        changed |= self.set_xattrs(&target, &there, entry)?;
        // Changing the owner clears set-ID bits, and a default ACL may have changed the mode since.
        let mode_now = || stat::statx_file(target.fd()).map(|now| stat::mode(&now));
        let before = if changed { mode_now()? } else { stat::mode(&now) };
        if !is_link && before != mode {
            self.ops.one();
            match target.chmod(mode) {
                Ok(()) => changed = true,
                Err(errno) => self.note("mode", errno, &entry.path)?,
            }
        }
        let due = changed
            || match on {
                On::File(..) => true,
                On::New(..) => false,
                On::Name(at, _) => !self.times.is_same(entry.mtime, at, &now),
            };
        if due && !matches!(on, On::New(..)) {
            changed |= self.set_times(&target, entry)?;
        }
        Ok(changed)
    }

    /// Sets the times of a file that is complete otherwise.
    pub(super) fn finish(&self, file: &File, entry: &Entry) -> rustix::io::Result<()> {
        self.set_times(&Target::File(file.as_fd()), entry).map(|_| ())
    }

    /// Whether they were set.
    fn set_times(&self, target: &Target<'_>, entry: &Entry) -> rustix::io::Result<bool> {
        self.ops.one();
        let set = target.set_times(entry);
        match &set {
            Err(errno) => self.note("times", *errno, &entry.path)?,
            Ok(()) if times::is_unusual(entry.mtime) => {
                self.ops.one();
                let kept = stat::statx_now(target.fd()).map(|now| stat::mtime(&now));
                if kept.is_ok_and(|kept| times::is_replaced(entry.mtime, kept)) {
                    let cause = "the file system keeps no such time, and took the nearest that it keeps";
                    self.note_cause("times", cause.to_owned(), &entry.path);
                }
            }
            Ok(()) => {}
        }
        Ok(set.is_ok())
    }

    fn set_xattrs(&self, target: &Target<'_>, there: &[Xattr], entry: &Entry) -> rustix::io::Result<bool> {
        if there == entry.xattrs {
            return Ok(false);
        }
        // What a source tells is not what this machine takes: a label or a mark of the kernel's own stays what it is.
        let (carried, others): (Vec<&Xattr>, Vec<&Xattr>) =
            entry.xattrs.iter().partition(|(name, _)| stat::is_carried(name));
        for (name, _) in others {
            let what = format!("attribute {}", haul_core::path::printable(name));
            self.note(&what, Errno::NOTSUP, &entry.path)?;
        }
        let mut changed = false;
        let mut tried = |what: &[u8], result: rustix::io::Result<()>| {
            let Err(errno) = result else {
                changed = true;
                return Ok(());
            };
            let what = format!("attribute {}", haul_core::path::printable(what));
            // Attributes that do not fit are left out, as a file system has little space for them.
            if matches!(errno, Errno::NOSPC | Errno::DQUOT | Errno::TOOBIG | Errno::NODATA) {
                self.note_cause(&what, std::io::Error::from(errno).to_string(), &entry.path);
                return Ok(());
            }
            self.note(&what, errno, &entry.path)
        };
        for (name, _) in
            there.iter().filter(|(name, _)| !entry.xattrs.iter().any(|(wanted, _)| wanted == name))
        {
            self.ops.one();
            tried(name, target.remove_xattr(name))?;
        }
        for (name, value) in carried.into_iter().filter(|wanted| !there.contains(wanted)) {
            self.ops.one();
            tried(name, target.set_xattr(name, value))?;
        }
        Ok(changed)
    }

    /// Counts what the user may not set or the file system does not keep. Any other error is a failure of the disk or of a
    /// server, and is handed back: what was not set because of it is not to count as done.
    fn note(&self, what: &str, errno: Errno, path: &RelPath) -> rustix::io::Result<()> {
        if !is_refusal(errno) {
            return Err(errno);
        }
        self.note_cause(what, std::io::Error::from(errno).to_string(), path);
        Ok(())
    }

    pub(super) fn note_cause(&self, what: &str, cause: String, path: &RelPath) {
        let mut notes = self.notes.lock();
        let note = notes.entry((what.to_owned(), cause.clone())).or_insert_with(|| MetaNote {
            what: what.to_owned(),
            cause,
            count: 0,
            example: path.clone(),
        });
        note.count += 1;
    }

    /// What could not be set, once for each kind.
    pub(super) fn notes(&self) -> Vec<MetaNote> {
        let notes = self.notes.lock();
        let mut all: Vec<MetaNote> = notes.values().cloned().collect();
        all.sort_by(|a, b| a.what.cmp(&b.what));
        all
    }

    /// Whether `entry`'s metadata is what is at `at`, whose plain metadata is `now`.
    pub(super) fn is_same(
        &self,
        root: &Root,
        at: &At,
        now: &Statx,
        entry: &Entry,
    ) -> rustix::io::Result<bool> {
        let is_link = matches!(entry.kind, EntryKind::Symlink(_));
        Ok((now.stx_uid, now.stx_gid) == self.owner(entry)
            && (is_link || stat::mode(now) == entry.mode)
            && self.times.is_same(entry.mtime, at, now)
            && {
                let carried = entry.xattrs.iter().filter(|(name, _)| stat::is_carried(name));
                root.xattrs(&stat::XattrsOf::Name(&at.proc_path()), now)?.iter().eq(carried)
            })
    }
}

/// An inode, held by a handle so that no name can be swapped under it.
enum Target<'a> {
    /// Open for writing: every call takes the handle.
    File(BorrowedFd<'a>),
    /// Held only, be it a symbolic link: calls reach it by the kernel's own link to the handle.
    Held(BorrowedFd<'a>),
}

impl Target<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::File(fd) | Self::Held(fd) => *fd,
        }
    }

    fn path(&self) -> String {
        stat::path_of(&self.fd())
    }

    fn chown(&self, uid: u32, gid: u32) -> rustix::io::Result<()> {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::fs::chownat(self.fd(), c"", Some(uid), Some(gid), AtFlags::EMPTY_PATH)
    }

    fn chmod(&self, mode: u32) -> rustix::io::Result<()> {
        let mode = Mode::from_raw_mode(mode);
        match self {
            Self::File(fd) => rustix::fs::fchmod(fd, mode),
            Self::Held(_) => rustix::fs::chmod(self.path(), mode),
        }
    }

    fn set_times(&self, entry: &Entry) -> rustix::io::Result<()> {
        let spec = |time: Timestamp| Timespec { tv_sec: time.sec, tv_nsec: time.nsec.into() };
        let times = Timestamps { last_access: spec(entry.atime), last_modification: spec(entry.mtime) };
        match self {
            Self::File(fd) => rustix::fs::futimens(fd, &times),
            Self::Held(_) => rustix::fs::utimensat(rustix::fs::CWD, self.path(), &times, AtFlags::empty()),
        }
    }

    fn xattrs(&self, ops: &Ops) -> rustix::io::Result<Vec<Xattr>> {
        match self {
            Self::File(fd) => stat::read_xattrs(ops, &stat::XattrsOf::File(*fd)),
            Self::Held(_) => stat::read_xattrs(ops, &stat::XattrsOf::Target(self.path().as_bytes())),
        }
    }

    fn set_xattr(&self, name: &[u8], value: &[u8]) -> rustix::io::Result<()> {
        let flags = XattrFlags::empty();
        match self {
            Self::File(fd) => rustix::fs::fsetxattr(fd, name, value, flags),
            Self::Held(_) => rustix::fs::setxattr(self.path(), name, value, flags),
        }
    }

    fn remove_xattr(&self, name: &[u8]) -> rustix::io::Result<()> {
        match self {
            Self::File(fd) => rustix::fs::fremovexattr(fd, name),
            Self::Held(_) => rustix::fs::removexattr(self.path(), name),
        }
    }
}

/// Whether an error says that the user may not set something, or that the file system does not keep it.
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
