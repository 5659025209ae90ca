//! Operations on the directory behind the mount: a function for each request that takes more than one system call.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileHandle, INodeNo, TimeOrNow};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid};
use rustix::io::Errno;

use crate::nodes::{BackingNode, Nodes};

/// Flags of open(2) that the kernel handles, or that would change where content is written.
const NOT_PASSED: OFlags = OFlags::CREATE
    .union(OFlags::EXCL)
    .union(OFlags::TRUNC)
    .union(OFlags::APPEND)
    .union(OFlags::DIRECT)
    .union(OFlags::NOFOLLOW);

/// Attributes to set.
#[derive(Clone, Copy, Default)]
pub(crate) struct WantedAttrs {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) atime: Option<TimeOrNow>,
    pub(crate) mtime: Option<TimeOrNow>,
    pub(crate) fh: Option<FileHandle>,
    /// The caller.
    pub(crate) caller: u32,
}

/// The directory behind the mount, with its open files.
pub(crate) struct BackingDir {
    pub(crate) nodes: Nodes,
    open: Mutex<HashMap<u64, Arc<File>>>,
    next: AtomicU64,
    time_unit: u64,
}

/// The user and group of the process that sends a request.
#[derive(Clone, Copy)]
pub(crate) struct RequestUser {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl BackingDir {
    pub(crate) fn new(nodes: Nodes, time_unit: u64) -> Self {
        Self { nodes, time_unit, open: Mutex::default(), next: AtomicU64::new(1) }
    }

    fn keep(&self, file: File) -> FileHandle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::new(file));
        FileHandle(number)
    }

    pub(crate) fn file(&self, fh: FileHandle) -> Result<Arc<File>, Errno> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(&fh.0).cloned().ok_or(Errno::BADF)
    }

    pub(crate) fn release(&self, fh: FileHandle) {
        let file = self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&fh.0);
        drop(file);
    }

    pub(crate) fn open(&self, ino: INodeNo, flags: i32) -> Result<FileHandle, Errno> {
        let node = self.nodes.get(ino)?;
        let flags = OFlags::from_bits_retain(flags.cast_unsigned()).difference(NOT_PASSED);
        let file = rustix::fs::open(node.proc_path(), flags | OFlags::CLOEXEC, Mode::empty())?;
        Ok(self.keep(file.into()))
    }

    pub(crate) fn create(
        &self,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        flags: i32,
        caller: RequestUser,
    ) -> Result<(FileAttr, FileHandle), Errno> {
        let parent = self.nodes.get(parent)?;
        let asked = OFlags::from_bits_retain(flags.cast_unsigned());
        let kept = asked & (OFlags::EXCL | OFlags::TRUNC);
        let flags = asked.difference(NOT_PASSED) | kept | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = &*self.nodes.spelled(&parent, name);
        let file = rustix::fs::openat(&parent.fd, name, flags, Mode::from_raw_mode(mode))?;
        own(&parent, caller, |uid, gid| rustix::fs::fchown(&file, uid, gid))?;
        let file = File::from(file);
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let held = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let attr = self.nodes.add_lookup(held, &parent, name)?;
        Ok((attr, self.keep(file)))
    }

    /// Creates an entry that is not a regular file.
    pub(crate) fn make(
        &self,
        parent: INodeNo,
        name: &OsStr,
        caller: RequestUser,
        make: impl FnOnce(&BackingNode, &OsStr) -> rustix::io::Result<()>,
    ) -> Result<FileAttr, Errno> {
        let parent = self.nodes.get(parent)?;
        let name = &*self.nodes.spelled(&parent, name);
        make(&parent, name)?;
        own(&parent, caller, |uid, gid| {
            rustix::fs::chownat(&parent.fd, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
        })?;
        self.nodes.look_up(&parent, name)
    }

    pub(crate) fn set(&self, ino: INodeNo, wanted: WantedAttrs) -> Result<FileAttr, Errno> {
        let node = self.nodes.get(ino)?;
        if let Some(size) = wanted.size {
            let held;
            let file = match wanted.fh {
                Some(fh) => {
                    held = self.file(fh)?;
                    &*held
                }
                None => {
                    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
                    held = Arc::new(rustix::fs::open(node.proc_path(), flags, Mode::empty())?.into());
                    &*held
                }
            };
            rustix::fs::ftruncate(file, size)?;
            if wanted.caller != 0 {
                drop_set_id(&node)?;
            }
        }
        if wanted.uid.is_some() || wanted.gid.is_some() {
            let (uid, gid) = (wanted.uid.map(Uid::from_raw), wanted.gid.map(Gid::from_raw));
            rustix::fs::chownat(&node.fd, c"", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        if let Some(mode) = wanted.mode {
            rustix::fs::chmod(node.proc_path(), Mode::from_raw_mode(mode & 0o7777))?;
        }
        if wanted.atime.is_some() || wanted.mtime.is_some() {
            let times = Timestamps {
                last_access: self.kept(wanted.atime),
                last_modification: self.kept(wanted.mtime),
            };
            rustix::fs::utimensat(&node.fd, c"", &times, AtFlags::EMPTY_PATH)?;
        }
        self.nodes.stat(&node)
    }

    /// Rounds a time down to the resolution of the mount.
    fn kept(&self, time: Option<TimeOrNow>) -> Timespec {
        let time = timespec(time);
        let is_set = time.tv_nsec != UTIME_NOW && time.tv_nsec != UTIME_OMIT;
        if self.time_unit < 2 || !is_set {
            return time;
        }
        let all = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
        let kept = all - all.rem_euclid(self.time_unit.into());
        let part = |value: i128| i64::try_from(value).unwrap_or(0);
        Timespec {
            tv_sec: part(kept.div_euclid(1_000_000_000)),
            tv_nsec: part(kept.rem_euclid(1_000_000_000)),
        }
    }

    /// Writes all of `data`. With `foreign`, set-ID bits are removed.
    pub(crate) fn write(
        &self,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        foreign: bool,
    ) -> Result<u32, Errno> {
        let file = self.file(fh)?;
        file.write_all_at(data, offset).map_err(|e| errno(&e))?;
        if foreign {
            drop_set_id(&*self.nodes.get(ino)?)?;
        }
        u32::try_from(data.len()).map_err(|_| Errno::INVAL)
    }

    /// Reads `size` bytes, fewer only at the end of the file.
    pub(crate) fn read(&self, fh: FileHandle, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let file = self.file(fh)?;
        let mut data = vec![0; size as usize];
        let mut filled = 0;
        while filled < data.len() {
            match file.read_at(&mut data[filled..], offset + filled as u64).map_err(|e| errno(&e))? {
                0 => break,
                count => filled += count,
            }
        }
        data.truncate(filled);
        Ok(data)
    }
}

/// Gives an entry that root created to the caller. The group of a set-group-ID directory is inherited.
fn own(
    parent: &BackingNode,
    caller: RequestUser,
    chown: impl FnOnce(Option<Uid>, Option<Gid>) -> rustix::io::Result<()>,
) -> Result<(), Errno> {
    if (caller.uid, caller.gid) == (0, 0) {
        return Ok(());
    }
    let handed_down = rustix::fs::fstat(&parent.fd)?.st_mode & 0o2000 != 0;
    let gid = (!handed_down).then(|| Gid::from_raw(caller.gid));
    chown(Some(Uid::from_raw(caller.uid)), gid)
}

/// Removes set-ID bits after a write by another user, as the kernel does.
fn drop_set_id(node: &BackingNode) -> Result<(), Errno> {
    let mode = rustix::fs::fstat(&node.fd)?.st_mode & 0o7777;
    let gone = if mode & 0o010 == 0 { 0o4000 } else { 0o6000 };
    if mode & gone != 0 {
        rustix::fs::chmod(node.proc_path(), Mode::from_raw_mode(mode & !gone))?;
    }
    Ok(())
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => since_epoch(time),
    }
}

fn since_epoch(time: SystemTime) -> Timespec {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Timespec {
            tv_sec: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: after.subsec_nanos().into(),
        },
        // fuser 0.18 subtracts seconds and nanoseconds of such a time from 1970 separately (`time.rs`). This restores
        // both.
        Err(before) => Timespec {
            tv_sec: -i64::try_from(before.duration().as_secs()).unwrap_or(i64::MAX),
            tv_nsec: before.duration().subsec_nanos().into(),
        },
    }
}

pub(crate) fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
