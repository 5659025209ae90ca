//! Staged files: content under a name of haul's own, beside its final name.
//!
//! The staging name is made from the final name, so a later run finds what an interrupted one left. A lock is held
//! on a staged file until it has its final name: two hauls that write the same file cannot mix.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::Duration;

pub(super) use haul_core::staging::{JOURNAL, PART, is_staging_name, staging_name};
use haul_core::{Entry, Error, ErrorKind, FileTree, Ops, RelPath, Result, SliceData};
use rustix::fs::{AtFlags, FallocateFlags, FlockOperation, Mode, OFlags, Statx};
use rustix::io::Errno;

use super::journal;
use super::root::{At, Root};
use super::{direct, large, mark, stat};

/// How often a lock that is waited for is tried.
const LOOK: Duration = Duration::from_millis(20);

/// Where the file at `at` is staged.
pub(super) fn part_of(at: &At) -> At {
    at.sibling(&staging_name(&at.name, PART))
}

/// Where the journal of the file at `at` is.
pub(super) fn journal_of(at: &At) -> At {
    at.sibling(&staging_name(&at.name, JOURNAL))
}

/// A file that is being made: under its staging name, locked; or (see `direct`) under its own.
pub(super) struct Staged {
    /// Its final name.
    pub(super) at: At,
    /// Its staging name.
    pub(super) part: At,
    /// The open file.
    pub(super) file: File,
    /// The file system it is on, for syncing.
    pub(super) dev: (u32, u32),
    /// What was known of it when it was opened: owner, mode, inode.
    pub(super) now: Statx,
    /// Whether it was there before, left by an interrupted run.
    pub(super) found: bool,
    /// Whether it has its final name already, and its times are what marks it complete.
    pub(super) direct: bool,
    /// Whether it was given a key, which is to go before it gets its final name.
    pub(super) keyed: bool,
}

impl Staged {
    /// Makes the staged file of the entry at `path`, or takes over the one that is there.
    pub(super) fn open(root: &Root, path: &RelPath) -> Result<Self> {
        Self::open_unless(root, path, &|_| Mode::RUSR | Mode::WUSR, &|_| false)?
            .ok_or_else(|| unstable(root, path))
    }

    /// The same, or `None` if the entry itself `is_there`: somebody else may be finishing it at this moment.
    fn open_unless(
        root: &Root,
        path: &RelPath,
        mode: &dyn Fn(&At) -> Mode,
        is_there: &dyn Fn(&At) -> bool,
    ) -> Result<Option<Self>> {
        let failed = |errno| root.error("stage", path, errno);
        let at = root.at_made(path).map_err(failed)?;
        let part = part_of(&at);
        // A few rounds: somebody else may be finishing the same file.
        for _ in 0..32 {
            if is_there(&at) {
                return Ok(None);
            }
            let new = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
            let (file, found) = match part.open(new, mode(&at)) {
                Ok(file) => (file, false),
                Err(Errno::EXIST) => match part.open(OFlags::RDWR | OFlags::NONBLOCK, Mode::empty()) {
                    Ok(file) => (file, true),
                    Err(Errno::NOENT) => continue,
                    Err(_) => {
                        remove(&part).map_err(failed)?;
                        continue;
                    }
                },
                Err(Errno::ACCESS) if root.unlock_parent(path, &at) => continue,
                Err(errno) => return Err(failed(errno)),
            };
            if found && !is_ours(&stat::statx_file(&file).map_err(failed)?) {
                // Planted, or of another user's run: it is not waited for.
                if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
                    == Err(Errno::WOULDBLOCK)
                {
                    let cause = "another user holds a file under its staging name";
                    return Err(root.fault(ErrorKind::Busy, "stage", path, cause));
                }
                remove(&part).map_err(failed)?;
                continue;
            }
            lock(root, path, &file)?;
            let now = stat::statx_file(&file).map_err(failed)?;
            // Before it was locked, another one may have locked it, filled it and given it its final name.
            if !is_named(&now, &part) {
                continue;
            }
            if found && !is_ours(&now) {
                remove(&part).map_err(failed)?;
                continue;
            }
            // It may have got its name between the look and the making.
            if is_there(&at) {
                remove(&part).map_err(failed)?;
                return Ok(None);
            }
            let dev = (now.stx_dev_major, now.stx_dev_minor);
            return Ok(Some(Self {
                at,
                part,
                file: file.into(),
                dev,
                now,
                found,
                direct: false,
                keyed: false,
            }));
        }
        Err(unstable(root, path))
    }

    /// Whether it has no attributes but those that it was given here.
    pub(super) fn is_bare(&self) -> bool {
        !self.found && !self.at.dir.hands_down()
    }

    /// Opens the file that has the final name, to be changed where it is. `None` if no regular file has it.
    pub(super) fn in_place(root: &Root, path: &RelPath) -> Result<Option<Self>> {
        let failed = |errno| root.error("change in place", path, errno);
        let at = root.at_made(path).map_err(failed)?;
        if !stat::statx(&at).is_ok_and(|now| stat::is_file(&now)) {
            return Ok(None);
        }
        let file = open_own(&at).map_err(failed)?;
        lock(root, path, &file)?;
        let now = stat::statx_file(&file).map_err(failed)?;
        if !stat::is_file(&now) || !is_named(&now, &at) {
            return Err(unstable(root, path));
        }
        // What a run that was to replace it has left.
        clean(&at);
        let dev = (now.stx_dev_major, now.stx_dev_minor);
        let (part, file) = (at.clone(), file.into());
        Ok(Some(Self { at, part, file, dev, now, found: true, direct: true, keyed: false }))
    }

    /// Forgets what an interrupted run has left in it.
    pub(super) fn clear(&self) -> io::Result<()> {
        if self.found {
            remove(&journal_of(&self.at))?;
            mark::remove_key(&self.file);
            self.at.dir.ops.one();
            self.file.set_len(0)?;
        }
        Ok(())
    }

    /// Removes it, as it will not be completed.
    pub(super) fn abandon(&self) {
        if self.direct {
            remove_if(&self.part, &self.now);
        } else {
            let _ = remove(&self.part);
        }
    }
}

fn unstable(root: &Root, path: &RelPath) -> Error {
    root.fault(ErrorKind::Busy, "stage", path, "its staging file does not hold still")
}

/// Opens a file to be changed, also if its mode keeps its owner from that: it has that mode again once it is open.
fn open_own(at: &At) -> rustix::io::Result<OwnedFd> {
    let open = || at.open(OFlags::RDWR | OFlags::NONBLOCK, Mode::empty());
    match open() {
        Err(Errno::ACCESS) => {}
        other => return other,
    }
    let held = at.open(OFlags::PATH, Mode::empty())?;
    let now = stat::statx_file(&held)?;
    if !stat::is_file(&now) || now.stx_uid != rustix::process::geteuid().as_raw() {
        return Err(Errno::ACCESS);
    }
    let mode = Mode::from_raw_mode(stat::mode(&now));
    let path = stat::path_of(&held);
    rustix::fs::chmod(&path, mode | Mode::RUSR | Mode::WUSR)?;
    let opened = open();
    rustix::fs::chmod(&path, mode)?;
    opened
}

/// Locks a file that is being made, where the file system has locks.
fn lock(root: &Root, path: &RelPath, file: &impl AsFd) -> Result<()> {
    match lock_patiently(root, file) {
        Ok(()) | Err(Errno::NOLCK | Errno::NOTSUP | Errno::INVAL) => Ok(()),
        Err(Errno::WOULDBLOCK) => {
            let cause = "another haul is writing this file";
            Err(root.fault(ErrorKind::Busy, "stage", path, cause))
        }
        Err(errno) => Err(root.error("stage", path, errno)),
    }
}

/// Locks a staged file. It may be held for a moment by the end of a run that was killed, or by an earlier write of
/// this one whose stream died: that is waited for. Once it turns out to be held for longer, less is waited for others.
fn lock_patiently(root: &Root, file: &impl AsFd) -> rustix::io::Result<()> {
    let mut waited = Duration::ZERO;
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if waited < root.patience() => {
                std::thread::sleep(LOOK);
                waited += LOOK;
            }
            Err(Errno::WOULDBLOCK) => {
                root.shorten_timeout();
                return Err(Errno::WOULDBLOCK);
            }
            other => return other,
        }
    }
}

/// Whether this is the inode that the name stands for.
pub(super) fn is_named(now: &Statx, part: &At) -> bool {
    stat::statx(part).is_ok_and(|named| stat::inode(&named) == stat::inode(now))
}

/// A regular file with this one name, made by this user: else somebody planted it.
pub(super) fn is_ours(now: &Statx) -> bool {
    stat::is_file(now) && now.stx_nlink == 1 && now.stx_uid == rustix::process::geteuid().as_raw()
}

/// Removes a name, if it stands for this inode: somebody else's may stand there by now.
pub(super) fn remove_if(at: &At, now: &Statx) {
    if is_named(now, at) {
        let _ = remove(at);
    }
}

/// Removes a name, if it is there.
pub(super) fn remove(at: &At) -> rustix::io::Result<()> {
    match at.unlink(AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// Writes the data of a slice where it belongs.
pub(super) fn write_extents(
    ops: &Ops,
    file: &File,
    start: u64,
    data: &SliceData,
    content: &[u8],
) -> io::Result<()> {
    let mut used = 0;
    for extent in &data.extents {
        let bytes = content.get(used..used + extent.len as usize).ok_or(io::ErrorKind::InvalidInput)?;
        ops.one();
        file.write_all_at(bytes, start + u64::from(extent.start))?;
        used += extent.len as usize;
    }
    Ok(())
}

/// Writes a slice over what is there: holes too, unless there is nothing but holes; what is the same only where it is not
/// there already.
pub(super) fn overwrite(
    ops: &Ops,
    file: &File,
    (start, len): (u64, u64),
    data: &SliceData,
    content: &[u8],
    over: Over,
) -> io::Result<()> {
    let (mut at, mut used) = (0, 0);
    for extent in &data.extents {
        let (from, len) = (u64::from(extent.start), extent.len as usize);
        if over.is_dirty && at < from {
            clear(ops, file, start + at, from - at)?;
        }
        at = from + len as u64;
        if extent.same && over.same == Same::LeftOut {
            continue;
        }
        let bytes = content.get(used..used + len).ok_or(io::ErrorKind::InvalidInput)?;
        used += len;
        if !extent.same || over.same == Same::Missing {
            ops.one();
            file.write_all_at(bytes, start + from)?;
        }
    }
    if over.is_dirty && at < len { clear(ops, file, start + at, len - at) } else { Ok(()) }
}

/// What a slice is written over.
#[derive(Clone, Copy)]
pub(super) struct Over {
    /// There may be something else than a hole.
    pub(super) is_dirty: bool,
    pub(super) same: Same,
}

/// Where that of a slice is which is the same in the old file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Same {
    /// In the content, and not in its place yet.
    Missing,
    /// In the content, and in its place too.
    There,
    /// In its place only.
    LeftOut,
}

/// Makes a hole; where there can be none, zeros.
fn clear(ops: &Ops, file: &File, mut at: u64, mut len: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    ops.one();
    match rustix::fs::fallocate(file, flags, at, len) {
        Ok(()) => return Ok(()),
        Err(Errno::NOTSUP | Errno::NOSYS) => {}
        Err(errno) => return Err(errno.into()),
    }
    let zeros = [0; 64 * 1024];
    while len > 0 {
        let step = len.min(zeros.len() as u64);
        ops.one();
        file.write_all_at(&zeros[..step as usize], at)?;
        (at, len) = (at + step, len - step);
    }
    Ok(())
}

/// Stages a whole small file. `None` if it `is_there`.
pub(super) fn stage_small(
    root: &Root,
    entry: &Entry,
    data: &SliceData,
    content: &[u8],
    is_there: &dyn Fn(&At) -> bool,
) -> Result<Option<Staged>> {
    let mode = |at: &At| direct::first_mode(entry, at.dir.hands_down());
    let Some(staged) = Staged::open_unless(root, &entry.path, &mode, is_there)? else { return Ok(None) };
    match staged.clear().and_then(|()| write_whole(&root.ops, &staged.file, entry, data, content)) {
        Ok(()) => Ok(Some(staged)),
        Err(e) => {
            staged.abandon();
            Err(Error::io(root.side(), "write", &e).on(root.shown(&entry.path)))
        }
    }
}

/// Writes all of a small file.
pub(super) fn write_whole(
    ops: &Ops,
    file: &File,
    entry: &Entry,
    data: &SliceData,
    content: &[u8],
) -> io::Result<()> {
    write_extents(ops, file, 0, data, content)?;
    let written = data.extents.last().map_or(0, |e| u64::from(e.start) + u64::from(e.len));
    if written < entry.len {
        ops.one();
        return file.set_len(entry.len);
    }
    Ok(())
}

/// Removes what is staged of a file that is there already: its journal, if a run was killed in the moment after the
/// file got its name, and what a remote end that had lost its connections still wrote. It does no harm where it is, so
/// failing is no error; `false` says that somebody holds it at the moment.
pub(super) fn clean(at: &At) -> bool {
    let part = part_of(at);
    match part.open(OFlags::RDWR | OFlags::NONBLOCK, Mode::empty()) {
        Err(Errno::NOENT) => {}
        Ok(file) => {
            if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                return false;
            }
            let stale = stat::statx_file(&file).is_ok_and(|now| is_ours(&now) && is_named(&now, &part));
            if !stale || remove(&part).is_err() {
                return true;
            }
        }
        Err(_) => return true,
    }
    let _ = remove(&journal_of(at));
    true
}

/// The slices of `entry` that an interrupted run left, as ranges. Unless this is a `dry_run`, a staged file whose content
/// cannot be synced is removed.
pub(super) fn resumable(at: &At, entry: &Entry, dry_run: bool) -> Vec<std::ops::Range<u32>> {
    let (part, journal) = (part_of(at), journal_of(at));
    let Ok(staged) = part.open(OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()) else { return Vec::new() };
    let staged = File::from(staged);
    let found = journal::load(&journal, &entry.identity(), &staged).slices;
    if !found.is_empty()
        && !dry_run
        && rustix::fs::flock(&staged, FlockOperation::NonBlockingLockExclusive).is_ok()
        && large::settle(&at.dir.ops, &staged).is_err()
    {
        let _ = remove(&journal);
        let _ = remove(&part);
        return Vec::new();
    }
    let mut tree = FileTree::new(entry.len);
    found.iter().for_each(|(index, value)| tree.set(*index, *value));
    tree.resumable()
}

#[cfg(test)]
#[path = "stage_tests.rs"]
mod tests;
