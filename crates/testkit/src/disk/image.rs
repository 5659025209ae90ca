//! The file system in user space that shows one file: the image of the disk.

use std::ffi::OsStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite,
    Request, TimeOrNow, WriteFlags,
};

use super::cache::{BLOCK, DiskCache, DiskFailed};

/// The name of the file.
pub(super) const NAME: &str = "image";

const FILE: INodeNo = INodeNo(2);

/// How long the kernel may remember names and attributes: they never change.
const FOREVER: Duration = Duration::from_secs(3600);

#[derive(Clone, Debug)]
pub(super) struct Image(pub(super) Arc<Mutex<DiskCache>>);

impl Image {
    pub(super) fn lock(&self) -> MutexGuard<'_, DiskCache> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attr(&self, ino: INodeNo) -> FileAttr {
        let size = if ino == FILE { self.lock().len() } else { 0 };
        let (kind, perm) =
            if ino == FILE { (FileType::RegularFile, 0o600) } else { (FileType::Directory, 0o700) };
        FileAttr {
            ino,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
            blksize: BLOCK as u32,
            flags: 0,
        }
    }
}

impl Filesystem for Image {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let _ = config.set_max_write(1 << 20);
        Ok(())
    }

    fn lookup(&self, _req: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == NAME {
            reply.entry(&FOREVER, &self.attr(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.attr(ino));
    }

    // The makers of file systems cut the image to length; it has it.
    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        _size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<std::time::SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<std::time::SystemTime>,
        _chgtime: Option<std::time::SystemTime>,
        _bkuptime: Option<std::time::SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.attr(&FOREVER, &self.attr(ino));
    }

    fn open(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // Nothing of it may stay in memory beyond the caches of the file system on it.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let result = self.lock().read(offset, size as usize);
        match result {
            Ok(data) => reply.data(&data),
            Err(DiskFailed) => reply.error(Errno::EIO),
        }
    }

    fn write(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let result = self.lock().write(offset, data);
        match result {
            Ok(()) => reply.written(data.len() as u32),
            Err(DiskFailed) => reply.error(Errno::EIO),
        }
    }

    fn flush(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        // This is a close; only a sync flushes the cache of the disk.
        reply.ok();
    }

    fn fsync(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        let result = self.lock().flush();
        match result {
            Ok(()) => reply.ok(),
            Err(DiskFailed) => reply.error(Errno::EIO),
        }
    }
}
