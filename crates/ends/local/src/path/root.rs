//! A held root directory, and the resolution of every path below it.
//!
//! A path is resolved component by component from a held directory, without following symbolic links. So neither a link
//! in the tree nor one swapped in during the run leads outside of the root. The path above the root was given by the
//! user, and links in it are followed. Below it links are followed only if the user asks for it: those of a source, and
//! links to directories of a destination.

use haul_core::sync::{Mutex, MutexGuard};
use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_core::source::DANGLING as NO_TARGET;
use haul_core::{Entry, EntryKind, Error, ErrorKind, Ops, RelPath, Side};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Statx};
use rustix::io::Errno;

use super::ancestors::Ancestor;
use super::at::{At, Dir, FOREIGN, IN_ITSELF, REPLACED};
use super::descriptors;
use super::dirlinks::KeptLinks;
use super::held_dirs::HeldDirs;
use super::links::{DANGLING, Follow, LEAVES};
use super::place::{AboveRoot, RootEntry, leaves_missing};
use super::stat;

/// Directory handles that are kept open.
const CACHED_DIRS: usize = 256;
/// The same on a network file system, where opening one again costs a request.
const CACHED_NETWORK_DIRS: usize = 2048;
/// Locks for opening or making directories, shared by the hash of their paths.
const LOCK_STRIPES: usize = 64;
/// On the way to a deep path, this many directories at its end are kept open, and as many at equal distances above.
/// The next path is near the end of this one or, when a tree is removed, ever farther up.
const KEPT: usize = 64;

const OPEN_DIR: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Called with each directory that is opened below the root.
type OnOpen = Box<dyn Fn(BorrowedFd<'_>) + Send + Sync>;
/// Called with each name below the root whose entry is to be replaced or removed, its path and the hash of that.
type BeforeReplacing = Box<dyn Fn(&Root, &At, &[u8], u128) -> rustix::io::Result<()> + Send + Sync>;

/// The root of an end.
pub(crate) struct Root {
    /// The limit on operations on this end's file systems.
    pub(crate) ops: Arc<Ops>,
    base: RootEntry,
    /// Nothing that exists may be replaced or removed.
    keeps: bool,
    follow: Follow,
    /// The links to directories that paths lead through, if they do.
    dirlinks: Option<KeptLinks>,
    side: Side,
    /// The directory that holds the root. It is opened when first needed, because it may have to be made.
    held: Mutex<Option<Arc<Dir>>>,
    dirs: Mutex<HeldDirs>,
    /// The stripe of a directory is locked while it is opened or made. Others who want the same one wait and find it.
    lock_stripes: [Mutex<()>; LOCK_STRIPES],
    /// Directories that were made because an entry below came first, by the hashes of their paths.
    made: Mutex<HashSet<u128>>,
    on_open: Option<OnOpen>,
    before_replacing: Option<BeforeReplacing>,
}

impl Root {
    pub(crate) fn new(base: RootEntry, side: Side, ops: Arc<Ops>) -> Self {
        Self {
            ops,
            base,
            keeps: false,
            follow: Follow::Never,
            dirlinks: None,
            side,
            held: Mutex::new(None),
            dirs: Mutex::new(HeldDirs::new(descriptors::share(8).min(CACHED_DIRS))),
            lock_stripes: [const { Mutex::new(()) }; LOCK_STRIPES],
            made: Mutex::default(),
            on_open: None,
            before_replacing: None,
        }
    }

    /// The same root; with `keeps`, nothing that exists is replaced or removed.
    pub(crate) fn keeping(self, keeps: bool) -> Self {
        Self { keeps, ..self }
    }

    /// The same root, of a source, with this treatment of symbolic links.
    pub(crate) fn following(self, follow: Follow) -> Self {
        Self { follow, ..self }
    }

    /// The same root, of a destination; with `keeps`, paths lead through symbolic links to directories.
    pub(crate) fn keeping_dirlinks(self, keeps: bool) -> Self {
        Self { dirlinks: keeps.then(KeptLinks::default), ..self }
    }

    /// Where the source has a symbolic link, a kept one is no directory.
    pub(crate) fn note_link(&self, entry: &Entry) {
        if let (Some(dirlinks), EntryKind::Symlink(_)) = (&self.dirlinks, &entry.kind) {
            dirlinks.is_of_source(self.dirs.lock().hash(entry.path.as_bytes()));
        }
    }

    /// Whether symbolic links below the root are followed.
    pub(crate) fn follows_links(&self) -> bool {
        !self.follow.is_never()
    }

    /// Whether this root is in a directory that the user is confined to.
    pub(crate) fn is_confined(&self) -> bool {
        !matches!(self.base.above, AboveRoot::Followed)
    }

    /// Opens the entry at `path`, which is `at`; a symbolic link only if this root follows links.
    pub(crate) fn open(&self, at: &At, path: &RelPath, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        match at.open(flags, Mode::empty()) {
            Err(Errno::LOOP | Errno::NOTDIR) if self.follows_links() => self.follow(at, path, flags),
            other => other,
        }
    }

    /// Opens the target of the symbolic link at `path`, which is `at`.
    ///
    /// # Errors
    /// `DANGLING` and `LEAVES`; `LOOP` if links lead to each other.
    pub(crate) fn follow(&self, at: &At, path: &RelPath, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        self.follow.open(at, path.as_bytes(), flags)
    }

    /// Calls `on_open` with each directory that is opened from now on.
    pub(crate) fn watch(&mut self, on_open: impl Fn(BorrowedFd<'_>) + Send + Sync + 'static) {
        self.on_open = Some(Box::new(on_open));
    }

    /// Calls `keep` with each entry before [`Root::give_up`] gives it up.
    pub(crate) fn before_replacing(
        &mut self,
        keep: impl Fn(&Self, &At, &[u8], u128) -> rustix::io::Result<()> + Send + Sync + 'static,
    ) {
        self.before_replacing = Some(Box::new(keep));
    }

    /// Has to be called before the entry at `at`, whose path is `path`, is replaced or removed.
    ///
    /// # Errors
    /// The entry must stay.
    pub(crate) fn give_up(&self, at: &At, path: &RelPath) -> rustix::io::Result<()> {
        self.give_up_at(at, path.as_bytes())
    }

    /// The same with the error for the entry.
    ///
    /// # Errors
    /// As [`Root::give_up`].
    pub(crate) fn back_up(&self, at: &At, path: &RelPath) -> haul_core::Result<()> {
        self.give_up(at, path).map_err(|errno| self.error("back up", path, errno))
    }

    fn give_up_at(&self, at: &At, path: &[u8]) -> rustix::io::Result<()> {
        let Some(keep) = &self.before_replacing else { return Ok(()) };
        let hash = self.dirs.lock().hash(path);
        keep(self, at, path, hash)
    }

    /// Keeps more directories open, as on a network file system.
    pub(crate) fn hold_more_dirs(&self) {
        self.dirs.lock().resize(descriptors::share(4).min(CACHED_NETWORK_DIRS));
    }

    pub(crate) fn side(&self) -> Side {
        self.side
    }

    /// The path of the root, which may not exist.
    pub(crate) fn path(&self) -> PathBuf {
        let name = std::os::unix::ffi::OsStrExt::from_bytes(&self.base.name[..]);
        self.base.dir.join::<&std::ffi::OsStr>(name)
    }

    /// The name of the root.
    pub(crate) fn name(&self) -> &[u8] {
        match &self.base.name[..] {
            b"." => self.base.dir.file_name().map_or(b"", std::ffi::OsStr::as_encoded_bytes),
            name => name,
        }
    }

    /// The path of an entry as the user gave the root, for messages.
    pub(crate) fn shown(&self, path: &RelPath) -> Vec<u8> {
        use std::os::unix::ffi::OsStrExt;
        let mut shown = self.base.dir.as_os_str().as_bytes().to_vec();
        // `name` reads better than `./name`.
        if shown == b"." && !(path.is_root() && matches!(&self.base.name[..], b"" | b".")) {
            shown.clear();
        }
        for part in [&self.base.name[..], path.as_bytes()] {
            if !matches!(part, b"" | b".") {
                if shown.last().is_some_and(|last| *last != b'/') {
                    shown.push(b'/');
                }
                shown.extend_from_slice(part);
            }
        }
        shown
    }

    /// A system error on the entry at `path`.
    pub(crate) fn error(&self, operation: &str, path: &RelPath, errno: Errno) -> Error {
        if errno == REPLACED {
            let cause = "something else was put in its place during the run";
            return self.fault(ErrorKind::Io, operation, path, cause);
        }
        if errno == IN_ITSELF {
            let cause = "the directory for backups is in the destination under another name";
            let error = self.fault(ErrorKind::Unsupported, operation, path, cause);
            return error
                .with_hint("give --backup-dir relative to the destination, or a directory outside of it");
        }
        if errno == FOREIGN {
            let cause =
                "a symbolic link on its path belongs to another user, who could lead the copy anywhere";
            let error = self.fault(ErrorKind::PermissionDenied, operation, path, cause);
            return error
                .with_hint("give the link to root or to the user of the run, or omit --keep-dirlinks");
        }
        let error = Error::io(self.side, operation, &errno.into()).on(self.shown(path));
        if self.follows_links() {
            return match errno {
                DANGLING => self.fault(ErrorKind::NotFound, operation, path, NO_TARGET),
                LEAVES => {
                    let cause = "the symbolic link leads out of the directory that this login is confined to";
                    self.fault(ErrorKind::PermissionDenied, operation, path, cause)
                }
                _ => error,
            };
        }
        if errno == Errno::XDEV {
            return error.with_hint("give a --backup-dir on the file system of the entry");
        }
        if errno == Errno::LOOP || errno == Errno::NOTDIR {
            return error.with_hint(
                "an entry above it is a symbolic link or not a directory; haul follows no link below the root",
            );
        }
        error
    }

    /// An error of haul's own on the entry at `path`.
    pub(crate) fn fault(&self, kind: ErrorKind, operation: &str, path: &RelPath, cause: &str) -> Error {
        Error::new(kind, self.side, operation, cause).on(self.shown(path))
    }

    /// Opens the directory that holds the root, or gives the open one.
    fn held(&self, make: bool) -> rustix::io::Result<Arc<Dir>> {
        let mut held = self.held.lock();
        if let Some(dir) = &*held {
            return Ok(dir.clone());
        }
        // The user gave the path above the root: links in it are followed.
        let flags = OPEN_DIR.difference(OFlags::NOFOLLOW);
        self.ops.one();
        let first = match &self.base.above {
            AboveRoot::Followed => rustix::fs::open(&self.base.dir, flags, Mode::empty()),
            AboveRoot::Held(dir) => rustix::io::fcntl_dupfd_cloexec(dir, 0),
            AboveRoot::Missing => return Err(Errno::NOENT),
        };
        let opened = match first {
            Err(Errno::NOENT) if make && !leaves_missing(&self.base.dir) => {
                std::fs::create_dir_all(&self.base.dir)
                    .map_err(|e| e.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))?;
                rustix::fs::open(&self.base.dir, flags, Mode::empty())?
            }
            other => other?,
        };
        Ok(held.insert(Arc::new(self.hold(opened, false))).clone())
    }

    fn hold(&self, opened: OwnedFd, fresh: bool) -> Dir {
        Dir::new(opened, fresh, &self.ops).keeping(self.keeps)
    }

    /// The path that the user gave, above the root.
    pub(crate) fn path_above(&self) -> &std::path::Path {
        &self.base.dir
    }

    /// Finds the entry at `path`, whose parent must exist.
    pub(crate) fn at(&self, path: &RelPath) -> rustix::io::Result<At> {
        self.find(path, false)
    }

    /// Finds the place of an entry to be made: makes missing directories on the way, and replaces other files there.
    pub(crate) fn at_made(&self, path: &RelPath) -> rustix::io::Result<At> {
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

    /// Opens the directory at `path`.
    pub(crate) fn dir(&self, path: &RelPath, make: bool) -> rustix::io::Result<Arc<Dir>> {
        self.dir_of(path.as_bytes(), make)
    }

    /// The place of the directory that `path` leads to through a symbolic link there; `None` if `kind`, that of the entry
    /// there, is another one, or the link leads to no directory or is not to be followed.
    pub(crate) fn behind(&self, path: &RelPath, kind: FileType) -> rustix::io::Result<Option<At>> {
        if self.dirlinks.is_none() || kind != FileType::Symlink {
            return Ok(None);
        }
        match self.dir(path, false) {
            Ok(dir) => Ok(Some(At { dir, name: b".".to_vec() })),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Finds the directory at `path`, or the one that a kept link there leads to. Its parent must exist.
    pub(crate) fn at_dir(&self, path: &RelPath) -> rustix::io::Result<At> {
        let at = self.at(path)?;
        if self.dirlinks.is_none() {
            return Ok(at);
        }
        let kind = stat::kind(&stat::statx_without_atime(&at)?);
        Ok(self.behind(path, kind)?.unwrap_or(at))
    }

    /// Whether a kept link has led to the directory at `path`, or to one above it.
    pub(crate) fn is_behind_link(&self, path: &RelPath) -> bool {
        let Some(links) = self.dirlinks.as_ref().filter(|links| links.has_entered_any()) else {
            return false;
        };
        let entered = |found: rustix::io::Result<Statx>| found.is_ok_and(|now| links.has_entered(&now));
        let mut above = std::iter::successors(path.parent(), RelPath::parent);
        entered(self.at(path).and_then(|at| stat::statx_without_atime(&at)))
            || above.any(|dir| entered(self.dir(&dir, false).and_then(stat::statx_held)))
    }

    /// Goes down from the nearest ancestor that is held: in a loop, because the tree decides how deep it is.
    fn dir_of(&self, path: &[u8], make: bool) -> rustix::io::Result<Arc<Dir>> {
        let (nearest, steps) = self.dirs.lock().nearest(path);
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

    /// Opens, or makes, one directory on the way to `path`.
    fn enter(
        &self,
        path: &[u8],
        step: Ancestor,
        at: &At,
        make: bool,
        keep: bool,
    ) -> rustix::io::Result<Arc<Dir>> {
        let _locked = self.lock_stripe(step.hash);
        if let Some(dir) = self.dirs.lock().get(step) {
            return Ok(dir);
        }
        let open = || {
            self.ops.one();
            descriptors::wait_for(|| rustix::fs::openat(&at.dir, &at.name[..], OPEN_DIR, Mode::empty()))
        };
        // A directory that this run made most likely lacks the name: making it first saves the failing open.
        let made = make && at.dir.fresh && make_dir(at)?;
        let dirlink = || self.dirlinks.as_ref().map_or(Ok(None), |links| links.open(at, step.hash));
        let open = || match open() {
            Err(errno @ (Errno::LOOP | Errno::NOTDIR)) => dirlink()?.ok_or(errno),
            other => other,
        };
        let (opened, fresh) = match open() {
            Err(errno @ (Errno::NOENT | Errno::LOOP | Errno::NOTDIR)) if make && !made => {
                if errno != Errno::NOENT {
                    self.give_up_at(at, &path[..step.end])?;
                    at.unlink(AtFlags::empty())?;
                }
                let fresh = make_dir(at)?;
                (open()?, fresh)
            }
            Err(Errno::LOOP | Errno::NOTDIR) if self.follows_links() => {
                (self.follow.open(at, &path[..step.end], OPEN_DIR)?, false)
            }
            other => (other?, made),
        };
        if let Some(on_open) = &self.on_open {
            on_open(opened.as_fd());
        }
        let opened = Arc::new(self.hold(opened, fresh));
        if fresh {
            self.made.lock().insert(step.hash);
        }
        if fresh || keep {
            self.dirs.lock().put(path, step, opened.clone());
        }
        Ok(opened)
    }

    /// Whether the directory at `path` was made because an entry below came first. The answer is given once.
    pub(crate) fn take_made(&self, path: &RelPath) -> bool {
        let hash = self.dirs.lock().hash(path.as_bytes());
        // Another thread may have made it and not have noted it yet.
        let _locked = self.lock_stripe(hash);
        self.made.lock().remove(&hash)
    }

    fn lock_stripe(&self, hash: u128) -> MutexGuard<'_, ()> {
        self.lock_stripes[(hash % LOCK_STRIPES as u128) as usize].lock()
    }

    /// Closes held directories at and below `path`, because it was replaced or removed.
    pub(crate) fn forget(&self, path: &RelPath) {
        self.dirs.lock().forget(path.as_bytes());
    }
}

/// Makes a directory that only its owner may enter; its own mode is set at the end. `false` if the name exists.
fn make_dir(at: &At) -> rustix::io::Result<bool> {
    at.dir.ops.one();
    match rustix::fs::mkdirat(&at.dir, &at.name[..], Mode::RWXU) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// The path, or `.` for the empty path, which means the working directory.
pub(crate) fn nonempty(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_new_directory_counts_as_made_for_whoever_finds_it() {
        let scratch = tempfile::tempdir_in(".").unwrap();
        let mut root = Root::new(RootEntry::new(scratch.path(), b"."), Side::Destination, Arc::default());
        // The directory exists by now, and the root has not noted yet who made it.
        root.watch(|_| std::thread::sleep(Duration::from_millis(50)));
        let path = RelPath::new(b"d").unwrap();
        std::thread::scope(|scope| {
            let finder = scope.spawn(|| {
                while !scratch.path().join("d").exists() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                root.take_made(&path)
            });
            root.dir(&path, true).unwrap();
            assert!(finder.join().unwrap());
        });
        assert!(!root.take_made(&path), "the answer is given once");
    }
}
