//! A held root directory, and the one way to a name below it.
//!
//! Every path is resolved component by component from a held directory, never following a symbolic link, so
//! neither a link planted in the tree nor one swapped in during the run leads outside. What lies above the root was
//! named by the user and is followed.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use haul_core::{Error, ErrorKind, RelPath, Side};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::place::Base;
use crate::cache::Cache;

/// Milliseconds that the lock of a staged file is waited for at first.
const PATIENCE: u64 = 4000;
/// Directory handles that are kept open.
const CACHED_DIRS: usize = 256;

const OPEN_DIR: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The root of an end.
pub(super) struct Root {
    base: Base,
    side: Side,
    /// The directory that holds the root; opened when it is first needed, as it may have to be made.
    held: Mutex<Option<Arc<OwnedFd>>>,
    dirs: Mutex<Cache<RelPath, Arc<OwnedFd>>>,
    /// Directories that were made because something in them came first.
    made: Mutex<HashSet<RelPath>>,
    /// Milliseconds that a lock is waited for.
    patience: AtomicU64,
}

/// A name in a held directory: what the `*at` system calls take.
#[derive(Clone)]
pub(super) struct At {
    /// The directory.
    pub(super) dir: Arc<OwnedFd>,
    /// One component, or `.`.
    pub(super) name: Vec<u8>,
}

impl Root {
    pub(super) fn new(base: Base, side: Side) -> Self {
        Self {
            base,
            side,
            held: Mutex::new(None),
            dirs: Mutex::new(Cache::new(CACHED_DIRS)),
            made: Mutex::default(),
            patience: AtomicU64::new(PATIENCE),
        }
    }

    pub(super) fn side(&self) -> Side {
        self.side
    }

    /// The root's own path as the user gave it, for messages.
    pub(super) fn shown(&self, path: &RelPath) -> Vec<u8> {
        use std::os::unix::ffi::OsStrExt;
        let mut shown = self.base.dir.as_os_str().as_bytes().to_vec();
        for part in [&self.base.name[..], path.as_bytes()] {
            if !matches!(part, b"" | b".") {
                if shown.last() != Some(&b'/') {
                    shown.push(b'/');
                }
                shown.extend_from_slice(part);
            }
        }
        shown
    }

    /// An error of the system on the entry at `path`.
    pub(super) fn error(&self, operation: &str, path: &RelPath, errno: Errno) -> Error {
        let error = Error::io(self.side, operation, &errno.into()).on(self.shown(path));
        if errno == Errno::LOOP || errno == Errno::NOTDIR {
            return error.with_hint(
                "a folder on the way to it is a symbolic link or no folder; haul follows none below the root",
            );
        }
        error
    }

    /// An error of our own on the entry at `path`.
    pub(super) fn fault(&self, kind: ErrorKind, operation: &str, path: &RelPath, cause: &str) -> Error {
        Error::new(kind, self.side, operation, cause).on(self.shown(path))
    }

    /// The directory that holds the root.
    fn held(&self, make: bool) -> rustix::io::Result<Arc<OwnedFd>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dir) = &*held {
            return Ok(dir.clone());
        }
        // The path above the root is the user's own words: links in it are followed.
        let flags = OPEN_DIR.difference(OFlags::NOFOLLOW);
        let opened = match rustix::fs::open(&self.base.dir, flags, Mode::empty()) {
            Err(Errno::NOENT) if make => {
                std::fs::create_dir_all(&self.base.dir)
                    .map_err(|e| e.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))?;
                rustix::fs::open(&self.base.dir, flags, Mode::empty())?
            }
            other => other?,
        };
        Ok(held.insert(Arc::new(opened)).clone())
    }

    /// Where the entry at `path` is. Its parent must exist.
    pub(super) fn at(&self, path: &RelPath) -> rustix::io::Result<At> {
        self.find(path, false)
    }

    /// Where the entry at `path` is to be made: missing directories on the way are made, and what stands in their
    /// place is replaced.
    pub(super) fn at_made(&self, path: &RelPath) -> rustix::io::Result<At> {
        self.find(path, true)
    }

    fn find(&self, path: &RelPath, make: bool) -> rustix::io::Result<At> {
        match path.parent() {
            None => Ok(At { dir: self.held(make)?, name: self.base.name.clone() }),
            Some(parent) => Ok(At { dir: self.dir(&parent, make)?, name: path.name().to_vec() }),
        }
    }

    /// The directory at `path`, held open.
    pub(super) fn dir(&self, path: &RelPath, make: bool) -> rustix::io::Result<Arc<OwnedFd>> {
        if let Some(dir) = self.lock_dirs().get(path) {
            return Ok(dir);
        }
        let at = self.find(path, make)?;
        let opened = match rustix::fs::openat(&at.dir, &at.name[..], OPEN_DIR, Mode::empty()) {
            Err(errno @ (Errno::NOENT | Errno::LOOP | Errno::NOTDIR)) if make => {
                if errno != Errno::NOENT {
                    rustix::fs::unlinkat(&at.dir, &at.name[..], AtFlags::empty())?;
                }
                make_dir(&at)?;
                self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone());
                rustix::fs::openat(&at.dir, &at.name[..], OPEN_DIR, Mode::empty())?
            }
            other => other?,
        };
        let opened = Arc::new(opened);
        self.lock_dirs().put(path.clone(), opened.clone());
        Ok(opened)
    }

    /// How long a lock that somebody else holds is waited for.
    pub(super) fn patience(&self) -> Duration {
        Duration::from_millis(self.patience.load(Ordering::Relaxed))
    }

    /// A lock was waited for in vain.
    pub(super) fn lose_patience(&self) {
        self.patience.store(self.patience.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
    }

    /// Whether the directory at `path` was made because something in it came first; forgets it.
    pub(super) fn was_made(&self, path: &RelPath) -> bool {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).remove(path)
    }

    /// Forgets held directories at and below `path`, because it was replaced or removed.
    pub(super) fn forget(&self, path: &RelPath) {
        let gone = path.as_bytes();
        self.lock_dirs().forget(|dir| {
            let dir = dir.as_bytes();
            gone.is_empty() || dir.strip_prefix(gone).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        });
    }

    fn lock_dirs(&self) -> std::sync::MutexGuard<'_, Cache<RelPath, Arc<OwnedFd>>> {
        self.dirs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Directories are made so that only their owner gets in; their own mode comes last.
pub(super) fn make_dir(at: &At) -> rustix::io::Result<()> {
    match rustix::fs::mkdirat(&at.dir, &at.name[..], Mode::RWXU) {
        Err(Errno::EXIST) => Ok(()),
        other => other,
    }
}

impl At {
    /// Opens it, not following a link.
    pub(super) fn open(&self, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        rustix::fs::openat(&self.dir, &self.name[..], flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode)
    }

    /// The same directory, another name.
    pub(super) fn sibling(&self, name: &[u8]) -> Self {
        Self { dir: self.dir.clone(), name: name.to_vec() }
    }

    /// A path that leads to it through the held directory, for system calls that know no directory handles.
    pub(super) fn proc_path(&self) -> Vec<u8> {
        use std::io::Write;
        use std::os::fd::AsRawFd;
        let mut path = Vec::with_capacity(32 + self.name.len());
        // Writing to memory cannot fail.
        let _ = write!(path, "/proc/self/fd/{}/", self.dir.as_raw_fd());
        path.extend_from_slice(&self.name);
        path
    }
}
