//! Names below a root at the server.
//!
//! A server resolves paths itself and follows links in them. So haul checks directories before it works below them, and
//! does not treat a link as a directory, unless a source is to follow links. The server follows a link that appears
//! between two requests; SFTP cannot prevent it.

use haul_core::sync::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::{Error, ErrorKind, Links, Place, PlaceRoot, RelPath, Result, Side};

use super::conn::Conn;
use super::kernel_dirs::{is_of_kernel, refuse_the_kernel};
use super::packet::{self, Attrs, SftpRequest};
use super::pipeline::{Pipeline, ask_one};
use super::pool::Pool;
use super::reply::{Fault, unless_lost};
use super::session::Sftp;
use haul_ends::cache::Cache;

/// The most directories to cache as checked.
const KNOWN: usize = 64 * 1024;

/// The kinds of `st_mode`.
pub(super) const KIND: u32 = 0o170_000;
/// A directory.
pub(super) const DIR: u32 = 0o040_000;
/// A regular file.
pub(super) const FILE: u32 = 0o100_000;
/// A symbolic link.
pub(super) const LINK: u32 = 0o120_000;

/// Whether these are the metadata of a directory.
pub(super) fn is_dir(attrs: &Attrs) -> bool {
    attrs.mode.is_some_and(|mode| mode & KIND == DIR)
}

/// The permission bits of a regular file.
pub(super) fn file_mode(attrs: &Attrs) -> Option<u32> {
    attrs.mode.filter(|mode| mode & KIND == FILE).map(|mode| mode & 0o7777)
}

/// A root at the server.
pub(super) struct Tree {
    pub(super) sftp: Arc<Sftp>,
    pub(super) side: Side,
    /// The treatment of symbolic links below the root.
    pub(super) links: Links,
    /// The directory that holds the root.
    dir: Vec<u8>,
    /// The root in it; `.` is the directory itself.
    name: Vec<u8>,
    /// Whether the directory that holds the root exists.
    based: AtomicBool,
    known: Mutex<Cache<RelPath, ()>>,
}

/// The result of [`Tree::look`].
pub(super) struct Looked {
    /// One for each name.
    pub(super) found: Vec<Result<Option<Attrs>, Fault>>,
    /// Missing directories above the names; `true` if an entry of another kind has the name.
    pub(super) lacking: HashMap<RelPath, bool>,
}

impl Tree {
    pub(super) fn open(sftp: Arc<Sftp>, place: &Place, side: Side, links: Links) -> Result<Self> {
        let path = absolute(&sftp.pool, &place.path, side)?;
        let inside = |name: &[u8]| (path.clone(), name.to_vec());
        let (dir, name) = match &place.root {
            PlaceRoot::Inside(name) => inside(name),
            PlaceRoot::InsideIfDir(name) if leads_to_dir(&sftp.pool, &path, side)? => inside(name),
            PlaceRoot::Exactly | PlaceRoot::InsideIfDir(_) => exactly(&path),
        };
        let known = Mutex::new(Cache::new(KNOWN));
        Ok(Self { sftp, side, links, dir, name, based: AtomicBool::new(false), known })
    }

    /// The whole file system of the server.
    pub(super) fn top(&self) -> Self {
        Self {
            sftp: Arc::clone(&self.sftp),
            side: self.side,
            links: self.links,
            dir: b"/".to_vec(),
            name: b".".to_vec(),
            based: AtomicBool::new(false),
            known: Mutex::new(Cache::new(KNOWN)),
        }
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.sftp.pool
    }

    /// The path at the server.
    pub(super) fn remote(&self, path: &RelPath) -> Vec<u8> {
        let mut remote = self.dir.clone();
        // `DIR/.` is the directory, also where DIR is a link to it.
        if self.name != b"." || path.is_root() {
            push(&mut remote, &self.name);
        }
        if !path.is_root() {
            push(&mut remote, path.as_bytes());
        }
        remote
    }

    /// The path at the server of `name` beside `path`.
    pub(super) fn beside(&self, path: &RelPath, name: &[u8]) -> Vec<u8> {
        let mut remote = match path.parent() {
            Some(parent) => self.remote(&parent),
            None => self.dir.clone(),
        };
        push(&mut remote, name);
        remote
    }

    /// The name under which the entry lies in its directory.
    pub(super) fn name_of<'a>(&'a self, path: &'a RelPath) -> &'a [u8] {
        if path.is_root() { &self.name } else { path.name() }
    }

    /// The error of the server or of the connection for the entry at `path`.
    pub(super) fn error(&self, operation: &str, path: &RelPath, fault: Fault) -> Error {
        error(self.side, operation, &self.remote(path), fault)
    }

    /// The error of an entry whose name is a directory that is not empty.
    pub(super) fn not_empty(&self, path: &RelPath) -> Error {
        Error::not_empty(self.side).on(shown(&self.remote(path)))
    }

    /// An error of haul's own for the entry at `path`.
    pub(super) fn fault(&self, kind: ErrorKind, operation: &str, path: &RelPath, cause: &str) -> Error {
        Error::new(kind, self.side, operation, cause).on(shown(&self.remote(path)))
    }

    /// Forgets directories at and below `path`, because it was replaced or removed.
    pub(super) fn forget(&self, path: &RelPath) {
        let gone = path.as_bytes();
        self.known.lock().forget(|dir| {
            let dir = dir.as_bytes();
            gone.is_empty() || dir.strip_prefix(gone).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        });
    }

    /// Gets the attributes of names themselves. The directories above them are links only if links are followed.
    pub(super) fn look(&self, paths: &[RelPath]) -> Result<Looked> {
        self.pool().on_one(|conn| self.look_on(conn, paths))
    }

    fn look_on(&self, conn: &Conn, paths: &[RelPath]) -> Result<Looked> {
        let above = self.unknown_above(paths);
        let mut lacking = HashMap::new();
        let mut pipeline = Pipeline::new(conn);
        for dir in &above {
            let path = &self.remote(dir)[..];
            pipeline.ask(&match self.links {
                Links::Kept => SftpRequest::Lstat { path },
                Links::Followed => SftpRequest::Stat { path },
            });
        }
        // Outermost first, as nothing exists below an entry that is not a directory.
        for dir in above {
            let found = unless_lost(pipeline.next_reply().attrs())?;
            let reachable = dir.parent().is_none_or(|parent| !lacking.contains_key(&parent));
            match found {
                Ok(attrs) if reachable && is_dir(&attrs) => self.known.lock().put(dir, ()),
                Ok(_) => drop(lacking.insert(dir, reachable)),
                Err(_) => drop(lacking.insert(dir, false)),
            }
        }
        let reachable = |path: &RelPath| path.parent().is_none_or(|parent| !lacking.contains_key(&parent));
        let mut pipeline = Pipeline::new(conn);
        for path in paths.iter().filter(|path| reachable(path)) {
            pipeline.ask(&SftpRequest::Lstat { path: &self.remote(path) });
        }
        let mut found = Vec::with_capacity(paths.len());
        for path in paths {
            if !reachable(path) {
                found.push(Ok(None));
                continue;
            }
            found.push(match unless_lost(pipeline.next_reply().attrs())? {
                Ok(attrs) => Ok(Some(attrs)),
                Err(fault) if fault.is_missing() => Ok(None),
                Err(fault) => Err(fault),
            });
        }
        Ok(Looked { found, lacking })
    }

    /// The directories above these names that are not known to be directories, outermost first.
    fn unknown_above(&self, paths: &[RelPath]) -> BTreeSet<RelPath> {
        let mut above = BTreeSet::new();
        let mut known = self.known.lock();
        for path in paths {
            let mut at = path.parent();
            while let Some(dir) = at {
                if known.get(&dir).is_some() || above.contains(&dir) {
                    break;
                }
                at = dir.parent();
                above.insert(dir);
            }
        }
        above
    }

    /// Creates directories, outermost first. If the value is `true`, removes an entry of that name first. `mode` gives
    /// the mode of each, which the umask of the server limits. Returns those that failed.
    pub(super) fn make_dirs(
        &self,
        dirs: &BTreeMap<RelPath, bool>,
        mode: &dyn Fn(&RelPath) -> u32,
    ) -> Result<HashMap<RelPath, Fault>> {
        if dirs.is_empty() {
            return Ok(HashMap::new());
        }
        self.pool().on_one(|conn| {
            self.make_base(conn)?;
            let mut pipeline = Pipeline::new(conn);
            for (dir, in_the_way) in dirs {
                let path = &self.remote(dir)[..];
                if *in_the_way {
                    pipeline.ask(&SftpRequest::Remove { path });
                }
                pipeline.ask(&SftpRequest::Mkdir { path, mode: mode(dir) });
                pipeline.ask(&SftpRequest::Lstat { path });
            }
            let mut failed = HashMap::new();
            for (dir, in_the_way) in dirs {
                if *in_the_way {
                    let _ = pipeline.next_reply();
                }
                let made = pipeline.next_reply().ok();
                // Another process may have created it meanwhile.
                match (made, unless_lost(pipeline.next_reply().attrs())?) {
                    (_, Ok(attrs)) if is_dir(&attrs) => self.known.lock().put(dir.clone(), ()),
                    (Err(fault), _) | (Ok(()), Err(fault)) => drop(failed.insert(dir.clone(), fault)),
                    (Ok(()), Ok(_)) => {
                        let why = "something else is in its place".to_owned();
                        failed.insert(dir.clone(), Fault::Status(packet::FAILURE, why));
                    }
                }
            }
            Ok(failed)
        })
    }

    fn file_in_the_way(&self) -> Error {
        let cause = "it is a file, or a file is above it, and a directory is needed";
        Error::new(ErrorKind::Usage, self.side, "copy to", cause).on(&self.dir[..])
    }

    /// Creates the directory that holds the root, and its parents, if they are missing.
    pub(super) fn make_above(&self) -> Result<()> {
        self.pool().on_one(|conn| self.make_base(conn))
    }

    fn make_base(&self, conn: &Conn) -> Result<()> {
        if self.based.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut ends: Vec<usize> = (1..self.dir.len()).filter(|at| self.dir[*at] == b'/').collect();
        ends.push(self.dir.len());
        if ask_one(conn, &SftpRequest::Stat { path: &self.dir }).attrs().is_ok_and(|attrs| is_dir(&attrs)) {
            self.based.store(true, Ordering::Relaxed);
            return Ok(());
        }
        // To make a directory that `..` leaves again would make more than the destination.
        let mut at = 0;
        for end in &ends {
            if self.dir.get(at..*end) == Some(&b"/.."[..])
                && let Err(fault) = ask_one(conn, &SftpRequest::Stat { path: &self.dir[..at] }).attrs()
            {
                return Err(error(self.side, "make the directory", &self.dir, fault));
            }
            at = *end;
        }
        let mut pipeline = Pipeline::new(conn);
        for end in &ends {
            pipeline.ask(&SftpRequest::Mkdir { path: &self.dir[..*end], mode: 0o755 });
        }
        pipeline.ask(&SftpRequest::Stat { path: &self.dir });
        let mut made = Ok(());
        for _ in &ends {
            let reply = pipeline.next_reply().ok();
            // Below a directory that cannot be made, the next ones are only missing.
            if !matches!(&made, Err(Fault::Status(packet::PERMISSION_DENIED, _))) {
                made = reply;
            }
        }
        match pipeline.next_reply().attrs() {
            Ok(attrs) if is_dir(&attrs) => {
                self.based.store(true, Ordering::Relaxed);
                Ok(())
            }
            Ok(_) => Err(self.file_in_the_way()),
            Err(Fault::Lost(error)) => Err(error),
            Err(_) if ends.iter().any(|end| is_file(conn, &self.dir[..*end])) => Err(self.file_in_the_way()),
            Err(fault) => match made.err().unwrap_or(fault) {
                fault if is_of_kernel(&self.dir, &fault) => Err(refuse_the_kernel(self.side, &self.dir)),
                fault => Err(error(self.side, "make the directory", &self.dir, fault)),
            },
        }
    }

    /// Lets the owner write into the directories above these entries, as far as their modes forbid it; their own
    /// modes are set again at the end. The caller repeats the refused operation even if no mode had to change:
    /// somebody else may have changed it just before.
    pub(super) fn unlock<'a>(&self, conn: &Conn, paths: impl IntoIterator<Item = &'a RelPath>) -> Result<()> {
        let mut dirs = BTreeSet::new();
        for path in paths {
            let mut at = path.parent();
            while let Some(dir) = at.filter(|dir| !dirs.contains(dir)) {
                at = dir.parent();
                dirs.insert(dir);
            }
        }
        let mut pipeline = Pipeline::new(conn);
        dirs.iter().for_each(|dir| pipeline.ask(&SftpRequest::Lstat { path: &self.remote(dir) }));
        let mut locked = Vec::new();
        for dir in &dirs {
            if let Ok(Attrs { mode: Some(mode), .. }) = unless_lost(pipeline.next_reply().attrs())?
                && mode & KIND == DIR
                && mode & 0o700 != 0o700
            {
                locked.push((dir, mode & 0o7777 | 0o700));
            }
        }
        for (dir, mode) in &locked {
            let attrs = Attrs { mode: Some(*mode), ..Attrs::default() };
            pipeline.ask(&SftpRequest::Setstat { path: &self.remote(dir), attrs });
        }
        for _ in locked {
            let _refused = unless_lost(pipeline.next_reply().ok())?;
        }
        Ok(())
    }

    /// The directory that holds the root.
    pub(super) fn dir(&self) -> &[u8] {
        &self.dir
    }

    /// The file system of the destination. `None` if the server does not report it.
    pub(super) fn room(&self, conn: &Conn) -> Option<Room> {
        // The root may be a file system of its own, or not exist yet.
        self.room_at(conn, &self.remote(&RelPath::root())).or_else(|| self.room_at(conn, &self.dir))
    }

    /// The file system at a path. `None` if the server does not report it.
    pub(super) fn room_at(&self, conn: &Conn, path: &[u8]) -> Option<Room> {
        if !conn.server.statvfs {
            return None;
        }
        let reported = ask_one(conn, &SftpRequest::Statvfs { path }).extended().ok()?;
        // f_bsize, f_frsize, f_blocks, f_bfree, f_bavail, f_files, f_ffree, f_favail, f_fsid, f_flag, f_namemax
        let [_, unit, _, _, free, files, _, free_files] = packet::decode_numbers::<8>(&reported).ok()?;
        let flags = packet::decode_numbers::<10>(&reported).map_or(0, |numbers| numbers[9]);
        Some(Room {
            bytes: free.saturating_mul(unit),
            // File systems that allocate inodes on demand report that they have none.
            files: if files == 0 { u64::MAX } else { free_files },
            read_only: flags & packet::READ_ONLY != 0,
        })
    }
}

/// The free space of a file system.
pub(super) struct Room {
    pub(super) bytes: u64,
    /// Files that can be created.
    pub(super) files: u64,
    /// Whether it is mounted read-only.
    pub(super) read_only: bool,
}

/// The error of a read-only file system, which a server reports as a plain failure.
pub(super) fn read_only(side: Side, operation: &str, path: &[u8]) -> Error {
    Error::new(ErrorKind::Io, side, operation, "Read-only file system").on(path)
}

/// The error of the server or of the connection.
pub(super) fn error(side: Side, operation: &str, path: &[u8], fault: Fault) -> Error {
    let (code, words) = match fault {
        Fault::Lost(error) => return error,
        Fault::Status(code, words) => (code, words),
    };
    let said = |usual: &str| if words.is_empty() { usual.to_owned() } else { words.clone() };
    let (kind, cause) = match code {
        packet::NO_SUCH_FILE => (ErrorKind::NotFound, said("No such file or directory")),
        packet::PERMISSION_DENIED => (ErrorKind::PermissionDenied, said("Permission denied")),
        packet::OP_UNSUPPORTED => (ErrorKind::Unsupported, said("the server cannot do this")),
        packet::BAD_MESSAGE => {
            (ErrorKind::Io, format!("the server does not take it ({})", said("Bad message")))
        }
        _ => (ErrorKind::Io, format!("the server says no more than `{}`", said("Failure"))),
    };
    Error::new(kind, side, operation, cause).on(shown(path))
}

/// A path as the user knows it: the dot of `DIR/.` is haul's.
pub(super) fn shown(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/.").filter(|dir| !dir.is_empty()).unwrap_or(path)
}

fn push(path: &mut Vec<u8>, more: &[u8]) {
    if path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(more);
}

/// Makes a path absolute. A path that starts with neither `/` nor `~` is below the home directory.
fn absolute(pool: &Pool, path: &[u8], side: Side) -> Result<Vec<u8>> {
    let server = pool.server()?;
    let below_home = |rest: &[u8]| {
        let mut path = server.home.clone();
        if !rest.is_empty() {
            push(&mut path, rest);
        }
        path
    };
    match path.strip_prefix(b"~") {
        None if path.starts_with(b"/") => Ok(path.to_vec()),
        None => Ok(below_home(path)),
        Some([]) => Ok(below_home(b"")),
        Some([b'/', rest @ ..]) => Ok(below_home(rest)),
        Some(_) if server.expand_path => pool.on_one(|conn| {
            ask_one(conn, &SftpRequest::ExpandPath { path })
                .name()
                .map_err(|fault| error(side, "find", path, fault))
        }),
        Some(_) => {
            let cause = "this SFTP server does not tell other users' home directories";
            Err(Error::new(ErrorKind::Unsupported, side, "find", cause).on(path))
        }
    }
}

fn leads_to_dir(pool: &Pool, path: &[u8], side: Side) -> Result<bool> {
    pool.on_one(|conn| match ask_one(conn, &SftpRequest::Stat { path }).attrs() {
        Ok(attrs) => Ok(is_dir(&attrs)),
        Err(fault) if fault.is_missing() => Ok(false),
        Err(fault) => Err(error(side, "look at", path, fault)),
    })
}

/// The directory that holds the root at `path`, and the root's name in it; a slash at the end means the directory
/// itself.
fn exactly(path: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let end = path.iter().rposition(|b| *b != b'/').map_or(0, |at| at + 1);
    let trimmed = &path[..end];
    let at = trimmed.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
    let (dir, name) = trimmed.split_at(at);
    if end < path.len() || matches!(name, b"" | b"." | b"..") {
        let dir = if trimmed.is_empty() { b"/" } else { trimmed };
        return (dir.to_vec(), b".".to_vec());
    }
    let dir_end = dir.iter().rposition(|b| *b != b'/').map_or(0, |at| at + 1);
    let dir = if dir_end == 0 { b"/" } else { &dir[..dir_end] };
    (dir.to_vec(), name.to_vec())
}

/// Whether something that is no directory has this path.
fn is_file(conn: &Conn, path: &[u8]) -> bool {
    ask_one(conn, &SftpRequest::Stat { path }).attrs().is_ok_and(|attrs| !is_dir(&attrs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_at_the_end_means_the_directory_itself() {
        let at = |path: &str| {
            let (dir, name) = exactly(path.as_bytes());
            (String::from_utf8(dir).unwrap(), String::from_utf8(name).unwrap())
        };
        assert_eq!(at("/a/b"), ("/a".into(), "b".into()));
        assert_eq!(at("/a//b"), ("/a".into(), "b".into()));
        assert_eq!(at("/a/b//"), ("/a/b".into(), ".".into()));
        assert_eq!(at("/b"), ("/".into(), "b".into()));
        assert_eq!(at("/"), ("/".into(), ".".into()));
        assert_eq!(at("/a/.."), ("/a/..".into(), ".".into()));
    }
}
