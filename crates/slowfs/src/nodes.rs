//! The inodes that the kernel knows, each held open so that it stays what it is.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};
use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

/// The kernel's number of the root.
const ROOT: u64 = 1;

/// An inode of the folder behind.
pub(crate) struct Node {
    /// A handle without rights of its own (`O_PATH`).
    pub(crate) fd: OwnedFd,
    /// Where it was when it was last looked up, for faults.
    path: Mutex<PathBuf>,
}

impl Node {
    /// A path that leads to exactly this inode.
    pub(crate) fn proc_path(&self) -> String {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.path.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// All of them, with how often the kernel was told of each.
pub(crate) struct Nodes {
    known: Mutex<HashMap<u64, (Arc<Node>, u64)>>,
    root_ino: u64,
    dev: u64,
    folds_case: bool,
}

impl Nodes {
    pub(crate) fn new(root: &Path, folds_case: bool) -> rustix::io::Result<Self> {
        let fd = rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        let node = Arc::new(Node { fd, path: Mutex::default() });
        let known = HashMap::from([(ROOT, (node, 1))]);
        Ok(Self { known: Mutex::new(known), root_ino: stat.st_ino, dev: stat.st_dev, folds_case })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, (Arc<Node>, u64)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, ino: INodeNo) -> Result<Arc<Node>, Errno> {
        self.lock().get(&ino.0).map(|(node, _)| node.clone()).ok_or(Errno::STALE)
    }

    /// The kernel's number of an inode: its own, but for the root's.
    pub(crate) fn number(&self, ino: u64) -> INodeNo {
        INodeNo(match ino {
            ino if ino == self.root_ino => ROOT,
            // The top of a file system of which this is a part.
            ROOT => u64::MAX,
            ino => ino,
        })
    }

    /// The name as the folder has it: where case is not told apart, that may be another one.
    pub(crate) fn spelled(&self, parent: &Node, name: &OsStr) -> OsString {
        let stored = || -> rustix::io::Result<Option<OsString>> {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let dir = rustix::fs::openat(&parent.fd, ".", flags, Mode::empty())?;
            for entry in rustix::fs::Dir::new(dir)? {
                let found = entry?.file_name().to_bytes().to_vec();
                if found.eq_ignore_ascii_case(name.as_bytes()) {
                    return Ok(Some(OsString::from_vec(found)));
                }
            }
            Ok(None)
        };
        if !self.folds_case {
            return name.to_owned();
        }
        stored().ok().flatten().unwrap_or_else(|| name.to_owned())
    }

    /// The inode of that name, told to the kernel once more.
    pub(crate) fn look_up(&self, parent: &Node, name: &OsStr) -> Result<FileAttr, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = self.spelled(parent, name);
        let fd = rustix::fs::openat(&parent.fd, &name, flags, Mode::empty())?;
        self.tell(fd, parent, &name)
    }

    /// The inode that `fd` holds, which was found under that name, told to the kernel once more.
    pub(crate) fn tell(&self, fd: OwnedFd, parent: &Node, name: &OsStr) -> Result<FileAttr, Errno> {
        let stat = rustix::fs::fstat(&fd)?;
        if stat.st_dev != self.dev {
            // Numbers of inodes of another file system could be the same.
            return Err(Errno::XDEV);
        }
        let attr = self.attr(&stat);
        let path = parent.path().join(name);
        let mut known = self.lock();
        let (node, told) =
            known.entry(attr.ino.0).or_insert_with(|| (Arc::new(Node { fd, path: Mutex::default() }), 0));
        *told += 1;
        *node.path.lock().unwrap_or_else(PoisonError::into_inner) = path;
        Ok(attr)
    }

    /// The kernel has forgotten it so often.
    pub(crate) fn forget(&self, ino: INodeNo, times: u64) {
        let mut known = self.lock();
        if let Some((_, told)) = known.get_mut(&ino.0) {
            *told = told.saturating_sub(times);
            if *told == 0 && ino.0 != ROOT {
                known.remove(&ino.0);
            }
        }
    }

    pub(crate) fn stat(&self, node: &Node) -> Result<FileAttr, Errno> {
        let stat = rustix::fs::statat(&node.fd, c"", AtFlags::EMPTY_PATH)?;
        Ok(self.attr(&stat))
    }

    fn attr(&self, stat: &Stat) -> FileAttr {
        let mtime = time(stat.st_mtime, stat.st_mtime_nsec);
        let (major, minor) = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
        FileAttr {
            ino: self.number(stat.st_ino),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
            atime: time(stat.st_atime, stat.st_atime_nsec),
            mtime,
            ctime: time(stat.st_ctime, stat.st_ctime_nsec),
            crtime: mtime,
            kind: kind(rustix::fs::FileType::from_raw_mode(stat.st_mode)),
            perm: (stat.st_mode & 0o7777) as u16,
            nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
            uid: stat.st_uid,
            gid: stat.st_gid,
            // The kernel's own encoding of device numbers.
            rdev: (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12),
            blksize: 4096,
            flags: 0,
        }
    }
}

/// The kind of an inode in the words of the protocol.
pub(crate) fn kind(kind: rustix::fs::FileType) -> FileType {
    match kind {
        rustix::fs::FileType::Directory => FileType::Directory,
        rustix::fs::FileType::Symlink => FileType::Symlink,
        rustix::fs::FileType::Fifo => FileType::NamedPipe,
        rustix::fs::FileType::Socket => FileType::Socket,
        rustix::fs::FileType::CharacterDevice => FileType::CharDevice,
        rustix::fs::FileType::BlockDevice => FileType::BlockDevice,
        rustix::fs::FileType::RegularFile | rustix::fs::FileType::Unknown => FileType::RegularFile,
    }
}

fn time(sec: i64, nsec: impl TryInto<u32>) -> SystemTime {
    let base = if sec < 0 {
        UNIX_EPOCH - Duration::from_secs(sec.unsigned_abs())
    } else {
        UNIX_EPOCH + Duration::from_secs(sec.unsigned_abs())
    };
    base + Duration::from_nanos(nsec.try_into().unwrap_or(0).into())
}
