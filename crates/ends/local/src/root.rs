//! A held root directory, and the one way to a name below it.
//!
//! Every path is resolved component by component from a held directory, never following a symbolic link, so
//! neither a link planted in the tree nor one swapped in during the run leads outside. What lies above the root was
//! named by the user and is followed.

use haul_core::sync::{Mutex, MutexGuard};
use std::collections::HashSet;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use haul_core::{Error, ErrorKind, Ops, RelPath, Side};
use rustix::fs::{AtFlags, Mode, OFlags, Statx};
use rustix::io::Errno;

use super::ahead::Ahead;
use super::descriptors;
use super::devices::Devices;
use super::folding::Folding;
use super::held_dirs::HeldDirs;
use super::in_flight::InFlight;
use super::place::{Above, Base};
use super::unlocked::Unlocked;
use super::ways::Step;
use super::{ahead, network_fs, stage, stat};

/// Milliseconds that the lock of a staged file is waited for at first.
const PATIENCE: u64 = 4000;
/// Directory handles that are kept open.
const CACHED_DIRS: usize = 256;
/// The same where each one that is opened again is a question to a server.
const CACHED_REMOTE_DIRS: usize = 2048;
/// Folders that are opened or made at the same time, for this process to do each once.
const DOORS: usize = 64;
/// Of a way of many folders so many are kept open at its end, and so many at equal distances before: what comes next is
/// near its end, or, when a tree is removed, ever farther up.
const KEPT: usize = 64;

/// What has a name is not what this run made or looked at under it. (No file system says so of a path.)
pub(super) const REPLACED: Errno = Errno::NOTUNIQ;

const OPEN_DIR: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The root of an end.
pub(super) struct Root {
    /// What lets operations on this end's file system through.
    pub(super) ops: Arc<Ops>,
    /// The names in use where case is not told apart.
    pub(super) folding: Folding,
    /// What is being done on it.
    pub(super) in_flight: InFlight,
    base: Base,
    /// Nothing that is there is replaced or removed.
    keeps: bool,
    side: Side,
    /// The directory that holds the root; opened when it is first needed, as it may have to be made.
    held: Mutex<Option<Arc<Dir>>>,
    dirs: Mutex<HeldDirs>,
    /// One of them is held while a folder is opened or made: others who want the same one wait, and find it.
    doors: [Mutex<()>; DOORS],
    /// The file systems of a destination.
    pub(super) devices: Devices,
    /// Directories that were made because something in them came first, by the hashes of their paths.
    made: Mutex<HashSet<u128>>,
    /// Milliseconds that a lock is waited for.
    patience: AtomicU64,
    /// Whether the file system is far away; found out when it is first asked for.
    network_fs: OnceLock<bool>,
    /// The file system has no extended attributes.
    plain: AtomicBool,
    /// Folders that were opened up for the run.
    pub(super) unlocked: Unlocked,
}

/// A directory that is held open.
pub(super) struct Dir {
    fd: OwnedFd,
    /// This run made it, so nothing is in it that this run did not make.
    pub(super) fresh: bool,
    /// Nothing in it is replaced or removed but what is staged.
    pub(super) keeps: bool,
    /// Whether names in it that differ in case only are one name.
    pub(super) folds: OnceLock<bool>,
    /// Whether what is made in it gets attributes from it.
    hands_down: OnceLock<bool>,
    /// What lets operations on it through.
    pub(super) ops: Arc<Ops>,
    /// Staging names that are in it, if it was listed to look ahead, and whole.
    listed: OnceLock<Option<HashSet<Vec<u8>>>>,
    /// Staging names that are in it, if it was listed for them.
    staged: OnceLock<HashSet<Vec<u8>>>,
}

impl Dir {
    pub(super) fn new(fd: OwnedFd, fresh: bool, ops: &Arc<Ops>) -> Self {
        Self {
            fd,
            fresh,
            keeps: false,
            ops: Arc::clone(ops),
            folds: OnceLock::new(),
            hands_down: OnceLock::new(),
            listed: OnceLock::new(),
            staged: OnceLock::new(),
        }
    }

    /// Whether what is made in it gets attributes from it: a default ACL.
    pub(super) fn hands_down(&self) -> bool {
        *self.hands_down.get_or_init(|| {
            let path = stat::path_of(&self.fd);
            let there = stat::read_xattrs(&self.ops, &stat::XattrsOf::Target(path.as_bytes()));
            there.map_or(true, |there| there.iter().any(|(name, _)| &name[..] == b"system.posix_acl_default"))
        })
    }
}

impl Dir {
    /// Whether an earlier run has left something of that staging name in it, or may have.
    pub(super) fn has_staged(&self, name: &[u8]) -> bool {
        if self.fresh {
            return false;
        }
        if let Some(Some(staged)) = self.listed.get() {
            return staged.contains(name);
        }
        if let Some(staged) = self.staged.get() {
            return staged.contains(name);
        }
        ahead::staged_in(self).is_ok_and(|found| self.staged.get_or_init(|| found).contains(name))
    }
}

impl Dir {
    /// Lists it, unless that was done or this run has made it: see [`Ahead`]. Who comes meanwhile waits.
    pub(super) fn list_once(&self, ahead: &Ahead) {
        if !self.fresh {
            // What cannot be listed may well be looked at.
            self.listed.get_or_init(|| ahead.list(self).unwrap_or_default());
        }
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Dir {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// A name in a held directory: what the `*at` system calls take.
#[derive(Clone)]
pub(super) struct At {
    /// The directory.
    pub(super) dir: Arc<Dir>,
    /// One component, or `.`.
    pub(super) name: Vec<u8>,
}

impl Root {
    pub(super) fn new(base: Base, side: Side, ops: Arc<Ops>) -> Self {
        Self {
            ops,
            folding: Folding::default(),
            in_flight: InFlight::default(),
            base,
            keeps: false,
            side,
            held: Mutex::new(None),
            dirs: Mutex::new(HeldDirs::new(descriptors::share(8).min(CACHED_DIRS))),
            doors: [const { Mutex::new(()) }; DOORS],
            devices: Devices::default(),
            made: Mutex::default(),
            patience: AtomicU64::new(PATIENCE),
            network_fs: OnceLock::new(),
            plain: AtomicBool::new(false),
            unlocked: Unlocked::default(),
        }
    }

    /// Whether the root is, or will be, on a file system that is far away.
    pub(super) fn is_network_fs(&self) -> bool {
        *self.network_fs.get_or_init(|| {
            let name = std::os::unix::ffi::OsStrExt::from_bytes(&self.base.name[..]);
            let root = self.base.dir.join::<&std::ffi::OsStr>(name);
            let network_fs = root.ancestors().map(nonempty).find_map(network_fs::of).unwrap_or(false);
            if network_fs {
                self.lock_dirs().resize(descriptors::share(4).min(CACHED_REMOTE_DIRS));
            }
            network_fs
        })
    }

    /// Whether attributes are worth asking for: not where the file system has said that it has none.
    pub(super) fn has_xattrs(&self) -> bool {
        !self.plain.load(Ordering::Relaxed)
    }

    /// Whether a file is on the same mounted file system as the root.
    pub(super) fn shares_device(&self, file: &std::fs::File) -> bool {
        stat::statx_file(file).is_ok_and(|file| self.is_on_device(&file))
    }

    fn is_on_device(&self, now: &Statx) -> bool {
        let device = |stat: &Statx| (stat.stx_dev_major, stat.stx_dev_minor);
        let there = self.dir(&RelPath::root(), false).and_then(stat::statx_file);
        there.is_ok_and(|there| device(&there) == device(now))
    }

    /// Carried attributes of `of`, whose plain metadata is `now`, unless the file system has none.
    pub(super) fn xattrs(
        &self,
        of: &stat::XattrsOf<'_>,
        now: &Statx,
    ) -> rustix::io::Result<Vec<haul_core::entry::Xattr>> {
        if !self.has_xattrs() {
            return Ok(Vec::new());
        }
        match stat::ask_xattrs(&self.ops, of) {
            // What another one that is mounted below says is only about itself.
            Err(Errno::NOTSUP) => {
                self.plain.store(self.is_network_fs() && self.is_on_device(now), Ordering::Relaxed);
                Ok(Vec::new())
            }
            other => other,
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
        if errno == REPLACED {
            let cause = "something else was put in its place during the run";
            return self.fault(ErrorKind::Io, operation, path, cause);
        }
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
    fn held(&self, make: bool) -> rustix::io::Result<Arc<Dir>> {
        let mut held = self.held.lock();
        if let Some(dir) = &*held {
            return Ok(dir.clone());
        }
        // The path above the root is the user's own words: links in it are followed.
        let flags = OPEN_DIR.difference(OFlags::NOFOLLOW);
        self.ops.one();
        let first = match &self.base.above {
            Above::Followed => rustix::fs::open(&self.base.dir, flags, Mode::empty()),
            Above::Held(dir) => rustix::io::fcntl_dupfd_cloexec(dir, 0),
            Above::Missing => return Err(Errno::NOENT),
        };
        let opened = match first {
            Err(Errno::NOENT) if make => {
                std::fs::create_dir_all(&self.base.dir)
                    .map_err(|e| e.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))?;
                rustix::fs::open(&self.base.dir, flags, Mode::empty())?
            }
            other => other?,
        };
        Ok(held.insert(Arc::new(self.hold(opened, false))).clone())
    }

    fn hold(&self, opened: OwnedFd, fresh: bool) -> Dir {
        Dir { keeps: self.keeps, ..Dir::new(opened, fresh, &self.ops) }
    }

    /// The same; `keeps`: nothing that is there is replaced or removed.
    pub(super) fn keeping(self, keeps: bool) -> Self {
        Self { keeps, ..self }
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
        if path.is_root() {
            return Ok(At { dir: self.held(make)?, name: self.base.name.clone() });
        }
        let name = path.name();
        let parent = path.as_bytes().len().saturating_sub(name.len() + 1);
        Ok(At { dir: self.dir_of(&path.as_bytes()[..parent], make)?, name: name.to_vec() })
    }

    /// The directory at `path`, held open.
    pub(super) fn dir(&self, path: &RelPath, make: bool) -> rustix::io::Result<Arc<Dir>> {
        self.dir_of(path.as_bytes(), make)
    }

    /// Goes down from the innermost folder on the way that is held: by a loop, as the tree decides how deep it is.
    fn dir_of(&self, path: &[u8], make: bool) -> rustix::io::Result<Arc<Dir>> {
        let (nearest, steps) = self.lock_dirs().nearest(path);
        let mut dir = match nearest {
            Some(dir) => dir,
            None => {
                let at = At { dir: self.held(make)?, name: self.base.name.clone() };
                self.enter(path, steps[0], &at, make, true)?
            }
        };
        let stride = steps.len() / KEPT + 1;
        for at in 1..steps.len() {
            let step = steps[at];
            let start = steps[at - 1].end + usize::from(steps[at - 1].end > 0);
            let below = At { dir, name: path[start..step.end].to_vec() };
            let keep = at + KEPT >= steps.len() || at % stride == 0;
            dir = self.enter(path, step, &below, make, keep)?;
        }
        Ok(dir)
    }

    /// Opens, or makes, one folder on the way to `path`.
    fn enter(
        &self,
        path: &[u8],
        step: Step,
        at: &At,
        make: bool,
        keep: bool,
    ) -> rustix::io::Result<Arc<Dir>> {
        let door = &self.doors[(step.hash % DOORS as u128) as usize];
        let _door = door.lock();
        if let Some(dir) = self.lock_dirs().get(step) {
            return Ok(dir);
        }
        let open = || {
            self.ops.one();
            descriptors::wait_for(|| rustix::fs::openat(&at.dir, &at.name[..], OPEN_DIR, Mode::empty()))
        };
        // In a folder of this run's own making it is most likely not there.
        let made = make && at.dir.fresh && make_dir(at)?;
        let (opened, fresh) = match open() {
            Err(errno @ (Errno::NOENT | Errno::LOOP | Errno::NOTDIR)) if make && !made => {
                if errno != Errno::NOENT {
                    at.unlink(AtFlags::empty())?;
                }
                let fresh = make_dir(at)?;
                (open()?, fresh)
            }
            other => (other?, made),
        };
        if self.side == Side::Destination {
            self.devices.note(&opened);
        }
        let opened = Arc::new(self.hold(opened, fresh));
        if fresh {
            self.made.lock().insert(step.hash);
        }
        if fresh || keep {
            self.lock_dirs().put(path, step, opened.clone());
        }
        Ok(opened)
    }

    /// How long a lock that somebody else holds is waited for.
    pub(super) fn patience(&self) -> Duration {
        Duration::from_millis(self.patience.load(Ordering::Relaxed))
    }

    /// A lock was waited for in vain.
    pub(super) fn shorten_timeout(&self) {
        self.patience.store(self.patience.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
    }

    /// Whether the directory at `path` was made because something in it came first; forgets it.
    pub(super) fn was_made(&self, path: &RelPath) -> bool {
        let hash = self.lock_dirs().hash(path.as_bytes());
        self.made.lock().remove(&hash)
    }

    /// Forgets held directories at and below `path`, because it was replaced or removed.
    pub(super) fn forget(&self, path: &RelPath) {
        self.lock_dirs().forget(path.as_bytes());
    }

    fn lock_dirs(&self) -> MutexGuard<'_, HeldDirs> {
        self.dirs.lock()
    }
}

/// Makes a directory so that only its owner gets in; its own mode comes last. `false`: something of that name is there.
fn make_dir(at: &At) -> rustix::io::Result<bool> {
    at.dir.ops.one();
    match rustix::fs::mkdirat(&at.dir, &at.name[..], Mode::RWXU) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// The working directory has an empty name.
fn nonempty(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

impl At {
    /// Opens it, not following a link.
    pub(super) fn open(&self, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        self.dir.ops.one();
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        descriptors::wait_for(|| rustix::fs::openat(&self.dir, &self.name[..], flags, mode))
    }

    /// Removes the name.
    pub(super) fn unlink(&self, flags: AtFlags) -> rustix::io::Result<()> {
        if self.dir.keeps && !stage::is_staging_name(&self.name) {
            return Err(Errno::PERM);
        }
        self.dir.ops.one();
        rustix::fs::unlinkat(&self.dir, &self.name[..], flags)
    }

    /// Gives what has this name the name `to`, in place of what has that.
    pub(super) fn rename(&self, to: &Self) -> rustix::io::Result<()> {
        self.dir.ops.one();
        if to.dir.keeps {
            let flags = rustix::fs::RenameFlags::NOREPLACE;
            return rustix::fs::renameat_with(&self.dir, &self.name[..], &to.dir, &to.name[..], flags);
        }
        rustix::fs::renameat(&self.dir, &self.name[..], &to.dir, &to.name[..])
    }

    /// The same directory, another name.
    pub(super) fn sibling(&self, name: &[u8]) -> Self {
        Self { dir: self.dir.clone(), name: name.to_vec() }
    }

    /// A path that leads to it through the held directory, for system calls that know no directory handles.
    pub(super) fn proc_path(&self) -> Vec<u8> {
        use std::io::Write;
        let mut path = Vec::with_capacity(32 + self.name.len());
        // Writing to memory cannot fail.
        let _ = write!(path, "/proc/self/fd/{}/", self.dir.as_raw_fd());
        path.extend_from_slice(&self.name);
        path
    }
}
