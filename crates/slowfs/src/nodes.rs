//! The inodes that the kernel knows. Each is held open, so that its number stays valid.

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

/// The inode number of the root in the FUSE protocol.
const ROOT: u64 = 1;

/// An inode of the directory behind the mount.
pub(crate) struct BackingNode {
    /// A handle without access to content (`O_PATH`).
    pub(crate) fd: OwnedFd,
    /// The path of the last lookup. Faults are matched by it.
    path: Mutex<PathBuf>,
}

impl BackingNode {
    /// The path of this inode in `/proc/self/fd`.
    pub(crate) fn proc_path(&self) -> String {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.path.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// All known inodes, each with its number of lookups.
pub(crate) struct Nodes {
    known: Mutex<HashMap<u64, (Arc<BackingNode>, u64)>>,
    root_ino: u64,
    dev: u64,
    folds_case: bool,
}

impl Nodes {
    pub(crate) fn new(root: &Path, folds_case: bool) -> rustix::io::Result<Self> {
        let fd = rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        let node = Arc::new(BackingNode { fd, path: Mutex::default() });
        let known = HashMap::from([(ROOT, (node, 1))]);
        Ok(Self { known: Mutex::new(known), root_ino: stat.st_ino, dev: stat.st_dev, folds_case })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, (Arc<BackingNode>, u64)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, ino: INodeNo) -> Result<Arc<BackingNode>, Errno> {
        self.lock().get(&ino.0).map(|(node, _)| node.clone()).ok_or(Errno::STALE)
    }

    /// The number of an inode in the protocol: its real number, except for the root.
    pub(crate) fn number(&self, ino: u64) -> INodeNo {
        INodeNo(match ino {
            ino if ino == self.root_ino => ROOT,
            // The directory behind may be below the root of its file system, whose inode has the number 1.
            ROOT => u64::MAX,
            ino => ino,
        })
    }

    /// The stored spelling of a name. In a case-insensitive mount it may differ from `name`.
    pub(crate) fn spelled(&self, parent: &BackingNode, name: &OsStr) -> OsString {
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

    /// Looks up a name, and counts one more lookup of its inode.
    pub(crate) fn look_up(&self, parent: &BackingNode, name: &OsStr) -> Result<FileAttr, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = self.spelled(parent, name);
        let fd = rustix::fs::openat(&parent.fd, &name, flags, Mode::empty())?;
        self.add_lookup(fd, parent, &name)
    }

    /// Counts one more lookup of the inode that `fd` holds, found under this name.
    pub(crate) fn add_lookup(
        &self,
        fd: OwnedFd,
        parent: &BackingNode,
        name: &OsStr,
    ) -> Result<FileAttr, Errno> {
        let stat = rustix::fs::fstat(&fd)?;
        if stat.st_dev != self.dev {
            // An inode of another file system could have the same number.
            return Err(Errno::XDEV);
        }
        let attr = self.attr(&stat);
        let path = parent.path().join(name);
        let mut known = self.lock();
        let (node, lookups) = known
            .entry(attr.ino.0)
            .or_insert_with(|| (Arc::new(BackingNode { fd, path: Mutex::default() }), 0));
        *lookups += 1;
        *node.path.lock().unwrap_or_else(PoisonError::into_inner) = path;
        Ok(attr)
    }

    /// Takes back `times` lookups of an inode.
    pub(crate) fn forget(&self, ino: INodeNo, times: u64) {
        let mut known = self.lock();
        if let Some((_, lookups)) = known.get_mut(&ino.0) {
            *lookups = lookups.saturating_sub(times);
            if *lookups == 0 && ino.0 != ROOT {
                known.remove(&ino.0);
            }
        }
    }

    pub(crate) fn stat(&self, node: &BackingNode) -> Result<FileAttr, Errno> {
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
            // The encoding of device numbers in the kernel.
            rdev: (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12),
            blksize: 4096,
            flags: 0,
        }
    }
}

/// The file type in the protocol.
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
