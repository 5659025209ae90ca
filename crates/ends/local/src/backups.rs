//! Backups of entries that are replaced or removed.
//!
//! A backup is a second name of the old file, made before the first name goes: the entry is there at every moment. A
//! file system without hard links gets a rename instead.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

use haul_core::sync::Mutex;
use haul_core::{Backup, Error, ErrorKind, Place, PlaceRoot, RelPath, Result, Side};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::path::at::{At, IN_ITSELF};
use crate::path::place::{AboveRoot, RootEntry};
use crate::path::root::Root;
use crate::path::stat;
use crate::stage::names::part_of;

/// For the way up from a directory.
const ABOVE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// No directory is deeper below `/`.
const DEEPEST: usize = 1 << 18;

/// Where the backups of a root go.
pub(crate) struct Backups {
    suffix: Vec<u8>,
    dir: Option<BackupDir>,
    /// The hashes of the paths that this run has backed up. An entry that this run made there is no older version.
    done: Mutex<HashSet<u128>>,
}

/// A directory for backups.
struct BackupDir {
    /// The root of the backups, or the destination itself if they are in it.
    root: Root,
    /// The directory in `root`.
    within: RelPath,
    /// The root of the backup of a single file.
    of_file: Option<Root>,
    /// Whether the directory is in the tree that it has the backups of.
    is_inside: OnceLock<bool>,
}

impl Backups {
    /// The backups of the tree at `of`. `base` resolves a place, and `open` gives a root there.
    ///
    /// # Errors
    /// `Protocol` for a suffix that could lead to another directory, `Unsupported` if the directory of the backups is on
    /// another file system than the tree, or those of `base`.
    pub(crate) fn new(
        backup: &Backup,
        of: &Place,
        base: impl Fn(&Place) -> Result<RootEntry>,
        open: impl Fn(RootEntry) -> Root,
    ) -> Result<Self> {
        let suffix = &backup.suffix;
        if suffix.iter().any(|byte| matches!(byte, b'/' | 0)) || backup.dir.is_none() && suffix.is_empty() {
            let cause = "the suffix of backups is no part of a name";
            return Err(Error::new(ErrorKind::Protocol, Side::Wire, "open", cause).on(&suffix[..]));
        }
        let of = &decided(of, &base)?;
        let device_of_tree = device(&base(of)?);
        let root_at = |place: &Place| {
            let entry = base(place)?;
            match (device_of_tree, device(&entry)) {
                (Some(tree), Some(backups)) if tree != backups => Err(elsewhere(&entry)),
                _ => Ok(open(entry)),
            }
        };
        let dir = match (backup.place(of), backup.inner_dir(of)) {
            (None, _) => None,
            (Some(place), within) => {
                let mut itself = of.path.clone();
                itself.extend_from_slice(if itself.is_empty() { b"./" } else { b"/" });
                let itself = Place { path: itself, root: of.root.clone() };
                let place = if within.is_some() { &itself } else { &place };
                Some(BackupDir {
                    root: root_at(place)?,
                    of_file: backup.place_of_file(of).map(|place| root_at(&place)).transpose()?,
                    is_inside: within.as_ref().map_or_else(OnceLock::new, |_| OnceLock::from(false)),
                    within: within.unwrap_or_default(),
                })
            }
        };
        Ok(Self { suffix: backup.suffix.clone(), dir, done: Mutex::default() })
    }

    /// Makes a backup of each entry in `root` before it is replaced or removed.
    pub(crate) fn serve(self, root: &mut Root) {
        root.before_replacing(move |root, at, path, hash| self.keep(root, at, path, hash));
    }

    /// Makes a backup of the entry at `at`, whose path in `root` is `path`, unless it is a directory or missing. `hash`
    /// is that of the path.
    ///
    /// # Errors
    /// `XDEV` if the backups are on another file system, [`IN_ITSELF`] if they are in the tree under another name; else that
    /// of the system.
    fn keep(&self, root: &Root, at: &At, path: &[u8], hash: u128) -> rustix::io::Result<()> {
        match stat::statx(at) {
            Ok(now) if stat::is_dir(&now) => return Ok(()),
            Err(Errno::NOENT) => return Ok(()),
            now => now?,
        };
        if at.dir.keeps {
            return Err(Errno::PERM);
        }
        if self.done.lock().contains(&hash) {
            return Ok(());
        }
        let to = match &self.dir {
            None => at.sibling(&[&at.name[..], &self.suffix].concat()),
            Some(dir) => dir.place_of(root, path, &self.suffix)?,
        };
        match link(at, &to) {
            Ok(()) => {}
            // The file system has no hard links, has too many of this file, or links only files of this user.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK | Errno::ACCESS) => {
                at.rename(&to)?;
            }
            Err(errno) => return Err(errno),
        }
        self.done.lock().insert(hash);
        Ok(())
    }
}

impl BackupDir {
    /// The place of the backup of the entry at `path`. Makes the directories on the way, with the modes and owners that
    /// they have in `of`.
    fn place_of(&self, of: &Root, path: &[u8], suffix: &[u8]) -> rustix::io::Result<At> {
        let invalid = |_| Errno::NAMETOOLONG;
        if path.is_empty() {
            let root = self.of_file.as_ref().ok_or(Errno::INVAL)?;
            let at = root.at_made(&RelPath::root())?;
            return Ok(at.sibling(&[&at.name[..], suffix].concat()));
        }
        if *self.is_inside.get_or_init(|| self.leads_into(of)) {
            return Err(IN_ITSELF);
        }
        let path = RelPath::new(&[path, suffix].concat()).map_err(invalid)?;
        let separator: &[u8] = if self.within.is_root() { b"" } else { b"/" };
        let to =
            RelPath::new(&[self.within.as_bytes(), separator, path.as_bytes()].concat()).map_err(invalid)?;
        let at = self.root.at_made(&to)?;
        let (mut made, mut original) = (to.parent(), path.parent());
        while let (Some(dir), Some(like)) = (made, original) {
            if !self.root.take_made(&dir) {
                break;
            }
            self.set_like(&dir, of, &like);
            (made, original) = (dir.parent(), like.parent());
        }
        Ok(at)
    }

    /// Gives a directory of backups the mode and owner of its original, as far as this user may: a backup must not be
    /// easier to read.
    fn set_like(&self, dir: &RelPath, of: &Root, like: &RelPath) {
        let set = || -> rustix::io::Result<()> {
            let original = stat::statx(&of.at_dir(like)?)?;
            let dir = self.root.at(dir)?.open(OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
            let owner = Some(rustix::fs::Uid::from_raw(original.stx_uid));
            let group = Some(rustix::fs::Gid::from_raw(original.stx_gid));
            rustix::fs::fchown(&dir, owner, group)?;
            rustix::fs::fchmod(&dir, Mode::from_raw_mode(stat::mode(&original)))
        };
        // Without it, only this user may enter the directory.
        let _ = set();
    }

    /// Whether the directory of the backups is the root `of`, or in it. If that cannot be told, it counts as inside.
    fn leads_into(&self, of: &Root) -> bool {
        let find = || -> rustix::io::Result<bool> {
            let tree = stat::inode(&stat::statx(&of.at(&RelPath::root())?)?);
            let held = self.root.dir(&RelPath::root(), true)?;
            let mut dir = rustix::fs::openat(&held, ".", ABOVE, Mode::empty())?;
            let mut here = stat::inode(&stat::statx_file(&dir)?);
            for _ in 0..DEEPEST {
                if here == tree {
                    return Ok(true);
                }
                let above = rustix::fs::openat(&dir, "..", ABOVE, Mode::empty())?;
                let next = stat::inode(&stat::statx_file(&above)?);
                if next == here {
                    return Ok(false);
                }
                (dir, here) = (above, next);
            }
            Ok(true)
        };
        find().unwrap_or(true)
    }
}

/// The same place without the question whether its path is a directory.
///
/// # Errors
/// Those of `base`.
pub(crate) fn decided(of: &Place, base: impl Fn(&Place) -> Result<RootEntry>) -> Result<Place> {
    let PlaceRoot::InsideIfDir(name) = &of.root else { return Ok(of.clone()) };
    let exactly = Place { root: PlaceRoot::Exactly, ..of.clone() };
    let is_inside = base(of)?.dir != base(&exactly)?.dir;
    Ok(if is_inside { Place { root: PlaceRoot::Inside(name.clone()), ..exactly } } else { exactly })
}

/// The device of a directory, or of the one that the entry is or will be in; `None` if neither is known.
fn device(entry: &RootEntry) -> Option<u64> {
    match &entry.above {
        AboveRoot::Missing => None,
        AboveRoot::Held(dir) => rustix::fs::fstat(dir).ok().map(|found| found.st_dev),
        AboveRoot::Followed => {
            let of_dir = |found: Metadata| found.is_dir().then(|| found.dev());
            let itself = entry.dir.join(OsStr::from_bytes(&entry.name)).symlink_metadata();
            let above = entry.dir.ancestors().chain([Path::new(".")]);
            let mut above = above.filter(|dir| !dir.as_os_str().is_empty());
            itself
                .ok()
                .and_then(of_dir)
                .or_else(|| above.find_map(|dir| dir.metadata().ok().and_then(of_dir)))
        }
    }
}

/// The error of backups on another file system, where a backup can be neither a hard link nor a rename.
fn elsewhere(entry: &RootEntry) -> Error {
    let path = match &entry.name[..] {
        b"." => entry.dir.clone(),
        name => entry.dir.join(OsStr::from_bytes(name)),
    };
    let cause = "it is on another file system than the destination";
    Error::new(ErrorKind::Unsupported, Side::Destination, "keep backups in", cause)
        .on(path.as_os_str().as_bytes())
        .with_hint("give a --backup-dir on the file system of the destination")
}

/// Makes `to` another name of the entry at `at`, and replaces an entry with that name.
fn link(at: &At, to: &At) -> rustix::io::Result<()> {
    let link_to = |name: &At| {
        name.dir.ops.one();
        rustix::fs::linkat(&at.dir, &at.name[..], &name.dir, &name.name[..], AtFlags::empty())
    };
    match link_to(to) {
        Err(Errno::EXIST) => {}
        other => return other,
    }
    let part = part_of(to);
    part.remove()?;
    link_to(&part)?;
    let renamed = part.rename(to);
    // It stays if the rename failed, and if both are names of one file.
    part.remove()?;
    renamed
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::Arc;

    use super::*;
    use crate::path::place;

    fn place_of(path: &Path) -> Place {
        Place { path: path.to_str().unwrap().into(), root: PlaceRoot::Exactly }
    }

    /// A root at `dir` with its backups.
    fn root(dir: &Path, to: Option<&str>, suffix: &str) -> Result<Root> {
        let backup = Backup { dir: to.map(Into::into), suffix: suffix.into() };
        let open = |base| Root::new(base, Side::Destination, Arc::default());
        let of = place_of(dir);
        let base = |place: &Place| place::resolve(place, false);
        let mut root = open(base(&of)?);
        Backups::new(&backup, &of, base, open)?.serve(&mut root);
        Ok(root)
    }

    /// Replaces the file at `path` by one with this content.
    fn replace(root: &Root, path: &str, content: &str) -> rustix::io::Result<()> {
        let path = RelPath::new(path.as_bytes()).unwrap();
        root.give_up(&root.at(&path)?, &path)?;
        let file = root.path().join(std::str::from_utf8(path.as_bytes()).unwrap());
        fs::remove_file(&file).unwrap();
        fs::write(file, content).unwrap();
        Ok(())
    }

    fn read(dir: &Path, name: &str) -> String {
        fs::read_to_string(dir.join(name)).unwrap_or_default()
    }

    #[test]
    fn the_version_from_before_the_run_is_kept() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("d");
        fs::create_dir_all(dir.join("sub")).unwrap();
        fs::set_permissions(dir.join("sub"), fs::Permissions::from_mode(0o751)).unwrap();
        for (to, kept) in [(None, "sub/f~"), (Some("old"), "old/sub/f~"), (Some("../o"), "../o/sub/f~")] {
            fs::write(dir.join("sub/f"), "one").unwrap();
            for newer in ["two", "three"] {
                replace(&root(&dir, to, "~").unwrap(), "sub/f", newer).unwrap();
            }
            assert_eq!(read(&dir, kept), "two", "of another run");
            let once = root(&dir, to, "~").unwrap();
            replace(&once, "sub/f", "four").unwrap();
            replace(&once, "sub/f", "five").unwrap();
            assert_eq!(read(&dir, kept), "three", "of one run");
            let missing = RelPath::new(b"sub/none").unwrap();
            once.give_up(&once.at(&missing).unwrap(), &missing).unwrap();
        }
        for made in ["d/old/sub", "o/sub"] {
            assert_eq!(scratch.path().join(made).metadata().unwrap().mode() & 0o7777, 0o751, "{made}");
        }
    }

    #[test]
    fn a_backup_that_is_the_entry_already_stays() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("f"), "one").unwrap();
        fs::hard_link(scratch.path().join("f"), scratch.path().join("f~")).unwrap();
        replace(&root(scratch.path(), None, "~").unwrap(), "f", "two").unwrap();
        assert_eq!((read(scratch.path(), "f"), read(scratch.path(), "f~")), ("two".into(), "one".into()));
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 2, "nothing is left");
    }

    #[test]
    fn backups_never_go_into_their_own_tree_under_another_name() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("d");
        fs::create_dir_all(dir.join("sub")).unwrap();
        fs::write(dir.join("f"), "one").unwrap();
        symlink(&dir, scratch.path().join("alias")).unwrap();
        let alias = scratch.path().join("alias/sub");
        for to in [alias.to_str().unwrap(), dir.join("sub").to_str().unwrap(), "../d/sub", "."] {
            let root = root(&dir, Some(to), "").unwrap();
            assert_eq!(replace(&root, "f", "two"), Err(IN_ITSELF), "{to}");
        }
        // A link in the tree is not followed.
        symlink(scratch.path(), dir.join("old")).unwrap();
        replace(&root(&dir, Some("old"), "").unwrap(), "f", "two").unwrap();
        assert_eq!((read(&dir, "old/f"), read(scratch.path(), "f")), ("one".into(), String::new()));
    }

    #[test]
    fn a_suffix_leads_nowhere() {
        let scratch = tempfile::tempdir().unwrap();
        for suffix in ["/../x", "\0", ""] {
            assert!(root(scratch.path(), None, suffix).is_err(), "{suffix:?}");
        }
    }
}
