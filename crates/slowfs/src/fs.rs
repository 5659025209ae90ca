//! Implements the requests of the FUSE protocol on the directory behind the mount.

use std::ffi::{CString, OsStr};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};
use rustix::fs::{AtFlags, FallocateFlags, FileType, Mode, RawDir, SeekFrom, XattrFlags};
use rustix::io::Errno;

use crate::nodes::kind;
use crate::op::Op;
use crate::passthrough::{BackingDir, RequestUser, WantedAttrs, errno};
use crate::request::{SlowFs, answer};

fn caller(request: &Request) -> RequestUser {
    RequestUser { uid: request.uid(), gid: request.gid() }
}

impl Filesystem for SlowFs {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        if self.shared.options.plus {
            // The kernel requests attributes with the start of a listing, and continues if the process uses them.
            let _ =
                config.add_capabilities(InitFlags::FUSE_DO_READDIRPLUS | InitFlags::FUSE_READDIRPLUS_AUTO);
        }
        // The defaults of libfuse that affect which requests the kernel sends.
        for flag in [
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            InitFlags::FUSE_AUTO_INVAL_DATA,
        ] {
            // Older kernels lack some of them.
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_write(1 << 20);
        let _ = config.set_max_background(4096);
        Ok(())
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        self.shared.behind.nodes.forget(ino, nlookup);
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(Op::Lookup, parent, name, reply, move |behind, name| {
            behind.nodes.look_up(&*behind.nodes.get(parent)?, name)
        });
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        self.go(Op::Getattr, ino, None, move |shared, allowed| {
            let nodes = &shared.behind.nodes;
            let result = allowed.and_then(|()| nodes.get(ino)).and_then(|node| nodes.stat(&node));
            answer!(reply, result, attr => reply.attr(&shared.options.cache, &attr));
        });
    }

    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let wanted = WantedAttrs { mode, uid, gid, size, atime, mtime, fh, caller: req.uid() };
        self.go(Op::Setattr, ino, None, move |shared, allowed| {
            let result = allowed.and_then(|()| shared.behind.set(ino, wanted));
            answer!(reply, result, attr => reply.attr(&shared.options.cache, &attr));
        });
    }

    fn readlink(&self, _req: &Request, ino: INodeNo, reply: ReplyData) {
        self.go(Op::Readlink, ino, None, move |shared, allowed| {
            let result = allowed
                .and_then(|()| shared.behind.nodes.get(ino))
                .and_then(|node| rustix::fs::readlinkat(&node.fd, c"", Vec::new()));
            answer!(reply, result, target => reply.data(target.as_bytes()));
        });
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let caller = caller(req);
        self.entry(Op::Mknod, parent, name, reply, move |behind, name| {
            behind.make(parent, name, caller, |parent, name| {
                let (kind, mode) = (FileType::from_raw_mode(mode), Mode::from_raw_mode(mode & 0o7777));
                // The encoding of device numbers in the kernel.
                let (major, minor) = ((rdev >> 8) & 0xfff, (rdev & 0xff) | ((rdev >> 12) & 0xf_ff00));
                rustix::fs::mknodat(&parent.fd, name, kind, mode, rustix::fs::makedev(major, minor))
            })
        });
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        let caller = caller(req);
        self.entry(Op::Mkdir, parent, name, reply, move |behind, name| {
            behind.make(parent, name, caller, |parent, name| {
                rustix::fs::mkdirat(&parent.fd, name, Mode::from_raw_mode(mode & 0o7777))
            })
        });
    }

    fn symlink(&self, req: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let (caller, target) = (caller(req), target.to_owned());
        self.entry(Op::Symlink, parent, name, reply, move |behind, name| {
            behind.make(parent, name, caller, |parent, name| rustix::fs::symlinkat(&target, &parent.fd, name))
        });
    }

    fn link(&self, _req: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(Op::Link, parent, name, reply, move |behind, name| {
            let (node, parent) = (behind.nodes.get(ino)?, behind.nodes.get(parent)?);
            let follow = AtFlags::SYMLINK_FOLLOW;
            let name = &*behind.nodes.spelled(&parent, name);
            rustix::fs::linkat(rustix::fs::CWD, node.proc_path(), &parent.fd, name, follow)?;
            behind.nodes.look_up(&parent, name)
        });
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let owned = name.to_owned();
        self.plain(Op::Unlink, parent, Some(name), reply, move |behind| {
            let parent = behind.nodes.get(parent)?;
            let name = behind.nodes.spelled(&parent, &owned);
            rustix::fs::unlinkat(&parent.fd, &name, AtFlags::empty())
        });
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let owned = name.to_owned();
        self.plain(Op::Rmdir, parent, Some(name), reply, move |behind| {
            let parent = behind.nodes.get(parent)?;
            let name = behind.nodes.spelled(&parent, &owned);
            rustix::fs::unlinkat(&parent.fd, &name, AtFlags::REMOVEDIR)
        });
    }

    fn rename(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (old, new) = (name.to_owned(), new_name.to_owned());
        self.plain(Op::Rename, parent, Some(name), reply, move |behind| {
            let (from, to) = (behind.nodes.get(parent)?, behind.nodes.get(new_parent)?);
            let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
            let (old, new) = (behind.nodes.spelled(&from, &old), behind.nodes.spelled(&to, &new));
            rustix::fs::renameat_with(&from.fd, &old, &to.fd, &new, flags)
        });
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (caller, owned) = (caller(req), name.to_owned());
        self.go(Op::Create, parent, Some(name), move |shared, allowed| {
            let made = |()| shared.behind.create(parent, &owned, mode & 0o7777, flags, caller);
            answer!(reply, allowed.and_then(made), (attr, fh) => {
                reply.created(&shared.options.cache, &attr, Generation(0), fh, FopenFlags::empty());
            });
        });
    }

    fn open(&self, _req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.go(Op::Open, ino, None, move |shared, allowed| {
            let result = allowed.and_then(|()| shared.behind.open(ino, flags.0));
            answer!(reply, result, fh => reply.opened(fh, FopenFlags::empty()));
        });
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.go(Op::Read, ino, None, move |shared, allowed| {
            let result = allowed.and_then(|()| shared.behind.read(fh, offset, size));
            answer!(reply, result, data => reply.data(&data));
        });
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let foreign = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let data = data.to_vec();
        self.go(Op::Write, ino, None, move |shared, allowed| {
            let result = allowed.and_then(|()| shared.behind.write(ino, fh, offset, &data, foreign));
            answer!(reply, result, count => reply.written(count));
        });
    }

    fn flush(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        self.plain(Op::Flush, ino, None, reply, |_| Ok(()));
    }

    fn release(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.go(Op::Release, ino, None, move |shared, _| {
            shared.behind.release(fh);
            reply.ok();
        });
    }

    fn fsync(&self, _req: &Request, ino: INodeNo, fh: FileHandle, datasync: bool, reply: ReplyEmpty) {
        self.plain(Op::Fsync, ino, None, reply, move |behind| sync(behind, fh, datasync));
    }

    fn fsyncdir(&self, _req: &Request, ino: INodeNo, fh: FileHandle, datasync: bool, reply: ReplyEmpty) {
        self.plain(Op::Fsyncdir, ino, None, reply, move |behind| sync(behind, fh, datasync));
    }

    fn opendir(&self, _req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.go(Op::Opendir, ino, None, move |shared, allowed| {
            let result = allowed.and_then(|()| shared.behind.open(ino, flags.0));
            answer!(reply, result, fh => reply.opened(fh, FopenFlags::empty()));
        });
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        self.go(Op::Readdir, ino, None, move |shared, allowed| {
            let list = |reply: &mut ReplyDirectory| -> Result<(), Errno> {
                let dir = shared.behind.file(fh)?;
                rustix::fs::seek(&*dir, SeekFrom::Start(offset))?;
                let mut space = Vec::with_capacity(32 * 1024);
                let mut names = RawDir::new(dir.as_fd(), space.spare_capacity_mut());
                while let Some(name) = names.next() {
                    let name = name?;
                    let number = shared.behind.nodes.number(name.ino());
                    let text = OsStr::from_bytes(name.file_name().to_bytes());
                    if reply.add(number, name.next_entry_cookie(), kind(name.file_type()), text) {
                        break;
                    }
                }
                Ok(())
            };
            answer!(reply, allowed.and_then(|()| list(&mut reply)), () => reply.ok());
        });
    }

    fn readdirplus(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.go(Op::Readdirplus, ino, None, move |shared, allowed| {
            let list = |reply: &mut ReplyDirectoryPlus| -> Result<(), Errno> {
                let (dir, nodes) = (shared.behind.file(fh)?, &shared.behind.nodes);
                let parent = nodes.get(ino)?;
                rustix::fs::seek(&*dir, SeekFrom::Start(offset))?;
                let mut space = Vec::with_capacity(32 * 1024);
                let mut names = RawDir::new(dir.as_fd(), space.spare_capacity_mut());
                let mut any = false;
                while let Some(name) = names.next() {
                    let name = name?;
                    let text = OsStr::from_bytes(name.file_name().to_bytes());
                    let itself = matches!(text.as_bytes(), b"." | b"..");
                    let found = if itself { nodes.stat(&parent) } else { nodes.look_up(&parent, text) };
                    let attr = match found {
                        Ok(attr) => attr,
                        // Removed since it was listed, or on another file system.
                        Err(Errno::NOENT | Errno::XDEV) => continue,
                        // The reply is full: the kernel requests the rest.
                        Err(_) if any => break,
                        Err(error) => return Err(error),
                    };
                    any = true;
                    let cache = &shared.options.cache;
                    let next = name.next_entry_cookie();
                    if reply.add(attr.ino, next, text, cache, &attr, Generation(0)) {
                        if !itself {
                            nodes.forget(attr.ino, 1);
                        }
                        break;
                    }
                }
                Ok(())
            };
            answer!(reply, allowed.and_then(|()| list(&mut reply)), () => reply.ok());
        });
    }

    fn releasedir(&self, _req: &Request, ino: INodeNo, fh: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        self.go(Op::Releasedir, ino, None, move |shared, _| {
            shared.behind.release(fh);
            reply.ok();
        });
    }

    fn statfs(&self, _req: &Request, ino: INodeNo, reply: ReplyStatfs) {
        self.go(Op::Statfs, ino, None, move |shared, allowed| {
            let result = allowed
                .and_then(|()| shared.behind.nodes.get(ino))
                .and_then(|node| rustix::fs::fstatvfs(&node.fd));
            let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
            answer!(reply, result, fs => reply.statfs(
                fs.f_blocks, fs.f_bfree, fs.f_bavail, fs.f_files, fs.f_ffree,
                small(fs.f_bsize), small(fs.f_namemax), small(fs.f_frsize),
            ));
        });
    }

    fn setxattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        if !self.shared.options.xattrs {
            self.shared.counter.add(Op::Setxattr);
            return reply.error(fuser::Errno::ENOSYS);
        }
        let (name, value) = (name.to_owned(), value.to_vec());
        self.plain(Op::Setxattr, ino, None, reply, move |behind| {
            let flags = XattrFlags::from_bits_retain(flags.cast_unsigned());
            rustix::fs::setxattr(behind.nodes.get(ino)?.proc_path(), &name, &value, flags)
        });
    }

    fn getxattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let name = name.to_owned();
        self.xattr(Op::Getxattr, ino, size, reply, move |path, data| rustix::fs::getxattr(path, &name, data));
    }

    fn listxattr(&self, _req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.xattr(Op::Listxattr, ino, size, reply, |path, data| rustix::fs::listxattr(path, data));
    }

    fn removexattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = CString::new(name.to_owned().into_vec()).unwrap_or_default();
        self.plain(Op::Removexattr, ino, None, reply, move |behind| {
            rustix::fs::removexattr(behind.nodes.get(ino)?.proc_path(), name)
        });
    }

    fn fallocate(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.plain(Op::Fallocate, ino, None, reply, move |behind| {
            let mode = FallocateFlags::from_bits_retain(mode.cast_unsigned());
            rustix::fs::fallocate(&*behind.file(fh)?, mode, offset, length)
        });
    }

    fn lseek(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.go(Op::Lseek, ino, None, move |shared, allowed| {
            let find = |()| -> Result<u64, Errno> {
                let at = u64::try_from(offset).map_err(|_| Errno::INVAL)?;
                // SEEK_DATA and SEEK_HOLE of lseek(2). The kernel handles the others.
                let from = match whence {
                    3 => SeekFrom::Data(at),
                    4 => SeekFrom::Hole(at),
                    _ => return Err(Errno::INVAL),
                };
                rustix::fs::seek(&*shared.behind.file(fh)?, from)
            };
            answer!(reply, allowed.and_then(find), at => reply.offset(at.cast_signed()));
        });
    }
}

fn sync(behind: &BackingDir, fh: FileHandle, datasync: bool) -> Result<(), Errno> {
    let file = behind.file(fh)?;
    let synced = if datasync { file.sync_data() } else { file.sync_all() };
    synced.map_err(|e| errno(&e))
}
