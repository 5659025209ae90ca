//! A directory that a remote user is confined to: no path of a session leads out of it, whatever links it holds.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_core::{
    BufferPool, DirLinks, Error, ErrorKind, Ops, Place, PlaceRoot, RelPath, Result, Side, Sink, SinkOptions,
    Source, SourceOptions,
};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::path::links::{Fence, Follow};
use crate::path::place::{AboveRoot, RootEntry};
use crate::path::root::Root;
use crate::sink::open::open_at;
use crate::source::LocalSource;

const OPEN_DIR: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The directory, held open.
pub struct ConfinedDir {
    directory: OwnedFd,
    /// The path as the administrator gave it, and the path without links.
    named: PathBuf,
    real: PathBuf,
}

impl ConfinedDir {
    /// Opens the directory.
    ///
    /// # Errors
    /// `Usage` if it cannot be opened.
    pub fn open(directory: &Path) -> Result<Self> {
        let failed = |error: &std::io::Error| {
            let cause = error.to_string();
            let error = Error::new(ErrorKind::Usage, Side::Local, "open the directory of --root", cause);
            error.on(directory.as_os_str().as_bytes())
        };
        let real = directory.canonicalize().map_err(|error| failed(&error))?;
        let opened = rustix::fs::openat(CWD, &real, OPEN_DIR, Mode::empty());
        let held = opened.map_err(|errno| failed(&errno.into()))?;
        Ok(Self { directory: held, named: directory.to_owned(), real })
    }

    /// Opens a source in the directory. Links in it that are followed may not lead out of it.
    ///
    /// # Errors
    /// `PermissionDenied` if the place is outside, or the error of opening it.
    pub fn source(
        &self,
        place: &Place,
        options: SourceOptions,
        pool: &BufferPool,
        ops: &Arc<Ops>,
    ) -> Result<Arc<dyn Source>> {
        if options.dirlinks != DirLinks::Kept {
            return Err(keeps_no_dirlinks());
        }
        let base = self.base(place, false)?;
        let follow = if options.links.are_followed() { self.fence(&base)? } else { Follow::Never };
        let root = Root::new(base, Side::Source, Arc::clone(ops)).following(follow);
        Ok(Arc::new(LocalSource::new(root, pool.clone(), None).checking(options.pages)))
    }

    /// Opens a sink in the directory. With `keeps`, nothing that exists is replaced, changed or removed.
    ///
    /// # Errors
    /// `PermissionDenied` if the place is outside, or the error of opening it.
    pub fn sink(
        &self,
        place: &Place,
        options: &SinkOptions,
        keeps: bool,
        pool: &BufferPool,
        ops: &Arc<Ops>,
    ) -> Result<Arc<dyn Sink>> {
        if options.keep_dirlinks {
            return Err(keeps_no_dirlinks());
        }
        let base = |place: &Place, make| self.base(place, make);
        let open = |base| Root::new(base, Side::Destination, Arc::clone(ops)).keeping(keeps);
        Ok(Arc::new(open_at(place, options, pool, base, open)?))
    }

    /// Links below a root are followed as far as they stay in the directory.
    fn fence(&self, base: &RootEntry) -> Result<Follow> {
        let directory = rustix::io::fcntl_dupfd_cloexec(&self.directory, 0);
        let directory = directory.map_err(|errno| Error::io(Side::Wire, "open", &errno.into()))?;
        let above = base.dir.strip_prefix(&self.named).unwrap_or(Path::new(""));
        let root = above.join(OsStr::from_bytes(&base.name)).into_os_string().into_encoded_bytes();
        Ok(Follow::Within(Arc::new(Fence::new(directory, root))))
    }

    /// The components of a path below the directory, and whether the path names a directory itself.
    fn below(&self, path: &[u8]) -> Result<(Vec<Vec<u8>>, bool)> {
        let refused =
            |cause: String| Error::new(ErrorKind::PermissionDenied, Side::Wire, "open", cause).on(path);
        let rest = match path {
            [b'/', ..] => {
                let path = Path::new(OsStr::from_bytes(path));
                let rest = path.strip_prefix(&self.real).or_else(|_| path.strip_prefix(&self.named));
                let outside = || refused(format!("this login is confined to {}", self.named.display()));
                rest.map_err(|_| outside())?.as_os_str().as_bytes()
            }
            // The directory takes the place of the home directory.
            b"~" => b"",
            [b'~', b'/', rest @ ..] => rest,
            [b'~', ..] => return Err(refused("this login is confined to a directory".to_owned())),
            path => path,
        };
        let parts: Vec<Vec<u8>> =
            rest.split(|b| *b == b'/').filter(|c| !matches!(*c, b"" | b".")).map(<[u8]>::to_vec).collect();
        if parts.iter().any(|part| part == b"..") {
            return Err(refused(
                "this login is confined to a directory, and `..` could lead out of it".to_owned(),
            ));
        }
        let ends_in_directory = parts.is_empty() || path.ends_with(b"/") || path.ends_with(b"/.");
        Ok((parts, ends_in_directory))
    }

    fn base(&self, place: &Place, make: bool) -> Result<RootEntry> {
        let (mut parts, is_directory) = self.below(&place.path)?;
        let name = match &place.root {
            PlaceRoot::Inside(name) => Some(name),
            PlaceRoot::InsideIfDir(name) => self.walk(&parts, false).is_ok().then_some(name),
            PlaceRoot::Exactly => None,
        };
        let name = match name {
            // The remote client sends the name too.
            Some(name) if name == b"." => name.clone(),
            Some(name) => {
                let checked = RelPath::root().join(name);
                let bad = |why: haul_core::path::BadPath| {
                    Error::new(ErrorKind::Protocol, Side::Wire, "open", why.to_string()).on(name)
                };
                checked.map_err(bad)?.name().to_vec()
            }
            None if is_directory => b".".to_vec(),
            None => parts.pop().unwrap_or_else(|| b".".to_vec()),
        };
        let above = match self.walk(&parts, make) {
            Ok(directory) => AboveRoot::Held(Arc::new(directory)),
            Err(Errno::NOENT) if !make => AboveRoot::Missing,
            Err(errno) => {
                let error = Error::io(Side::Wire, "open", &errno.into()).on(&place.path);
                return Err(error
                    .with_hint("this login is confined to a directory; no symbolic link in it is followed"));
            }
        };
        let mut dir = self.named.clone();
        dir.extend(parts.iter().map(|part| OsStr::from_bytes(part)));
        Ok(RootEntry { dir, name, above })
    }

    /// Opens the directory at these components without following links. With `make`, missing directories are made.
    fn walk(&self, parts: &[Vec<u8>], make: bool) -> rustix::io::Result<OwnedFd> {
        let flags = OPEN_DIR | OFlags::NOFOLLOW;
        let mut at = rustix::fs::openat(self.directory.as_fd(), ".", flags, Mode::empty())?;
        for part in parts {
            at = match rustix::fs::openat(&at, &part[..], flags, Mode::empty()) {
                Err(Errno::NOENT) if make => {
                    match rustix::fs::mkdirat(&at, &part[..], Mode::RWXU | Mode::RWXG | Mode::RWXO) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(errno) => return Err(errno),
                    }
                    rustix::fs::openat(&at, &part[..], flags, Mode::empty())?
                }
                other => other?,
            };
        }
        Ok(at)
    }
}

fn keeps_no_dirlinks() -> Error {
    let cause = "this login is confined to a directory, and a symbolic link could lead out of it";
    Error::new(ErrorKind::PermissionDenied, Side::Wire, "use --keep-dirlinks", cause)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn place(path: &str, root: PlaceRoot) -> Place {
        Place { path: path.into(), root }
    }

    #[test]
    fn nothing_outside_can_be_named() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("in");
        fs::create_dir_all(directory.join("sub")).unwrap();
        fs::create_dir(scratch.path().join("out")).unwrap();
        symlink("../out", directory.join("link")).unwrap();
        symlink("/", directory.join("slash")).unwrap();
        let confined = ConfinedDir::open(&directory).unwrap();
        let base = |path: &str, make| confined.base(&place(path, PlaceRoot::Exactly), make);
        for bad in
            ["/etc/", "/", "../out/", "sub/../../out/", "~root/", "link/", "link/x", "slash/etc/passwd"]
        {
            for make in [false, true] {
                assert!(base(bad, make).is_err(), "{bad}");
            }
        }
        let outside = directory.parent().unwrap().join("out/");
        assert!(base(outside.to_str().unwrap(), true).is_err());
        for name in ["..", "a/b", "", "../../etc"] {
            let inside = PlaceRoot::Inside(name.into());
            assert!(confined.base(&place("sub", inside), false).is_err(), "{name}");
        }
        for good in ["sub/", "sub", "", "~", "~/sub/", "sub/new/deep/"] {
            assert!(base(good, false).is_ok(), "{good}");
        }
        let own = format!("{}/sub/", directory.display());
        assert!(matches!(base(&own, false).unwrap().above, AboveRoot::Held(_)));
        assert!(matches!(base("no/where/", false).unwrap().above, AboveRoot::Missing));
        assert!(!directory.join("no").exists());
        assert!(base("yes/there/", true).is_ok() && directory.join("yes/there").is_dir());
    }

    #[test]
    fn links_are_followed_inside_only() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("in");
        fs::create_dir_all(directory.join("sub/tree/deep")).unwrap();
        fs::create_dir(scratch.path().join("out")).unwrap();
        fs::write(scratch.path().join("out/f"), "no").unwrap();
        fs::write(directory.join("f"), "yes").unwrap();
        let absolute = directory.join("f");
        for (name, target) in [
            ("good", "../../f"),
            ("deep/good", "../../../f"),
            ("good-dir", "../.."),
            ("bad", "../../../out/f"),
            ("bad-dir", "../../../out"),
            ("bad-home", "../../../in/f"),
            ("bad-absolute", absolute.to_str().unwrap()),
            ("bad-proc", "/proc/self/cwd"),
        ] {
            symlink(target, directory.join("sub/tree").join(name)).unwrap();
        }
        let confined = ConfinedDir::open(&directory).unwrap();
        let pool = BufferPool::new(1 << 26);
        for (place, name) in [("sub/tree/", PlaceRoot::Exactly), ("sub", PlaceRoot::Inside(b"tree".to_vec()))]
        {
            let place = self::place(place, name);
            let source =
                confined.source(&place, haul_core::Links::Followed.into(), &pool, &Arc::default()).unwrap();
            let digest = |name: &str| {
                let path = RelPath::new(name.as_bytes()).unwrap();
                let found = source.lookup(std::slice::from_ref(&path)).unwrap().remove(0);
                (found.map(|entry| entry.is_some()), source.digest(&[path]).unwrap().remove(0))
            };
            for good in ["good", "deep/good", "good-dir/f", "good-dir/sub/tree/deep/good"] {
                assert_eq!(digest(good), (Ok(true), Ok(haul_core::Digest::of(b"yes"))), "{good}");
            }
            for bad in ["bad", "bad-dir/f", "bad-home", "bad-absolute", "good-dir/sub/tree/bad-dir/f"] {
                let (found, digest) = digest(bad);
                for error in [found.unwrap_err(), digest.unwrap_err()] {
                    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{bad}: {error}");
                }
            }
            assert!(digest("bad-proc/x").0.is_err());
        }
    }
}
