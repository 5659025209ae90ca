//! From a path as given to the directory that holds the root, and the root's name in it.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_core::{Error, ErrorKind, Place, PlaceRoot, Result, Side};
use uzers::os::unix::UserExt;

/// The entry `name` in the directory at `dir`; `.` is the directory itself.
#[derive(Clone, Debug)]
pub(crate) struct RootEntry {
    /// The directory, as this process can open it.
    pub(crate) dir: PathBuf,
    /// One component, or `.`.
    pub(crate) name: Vec<u8>,
    /// How the directory is opened.
    pub(crate) above: AboveRoot,
}

/// How the directory that holds a root is opened.
#[derive(Clone, Debug, Default)]
pub(crate) enum AboveRoot {
    /// By its path, which the user gave: links in it are followed.
    #[default]
    Followed,
    /// It is open already, inside of the directory that the user is confined to.
    Held(Arc<OwnedFd>),
    /// It does not exist and must not be looked up again: a link may have that name by then.
    Missing,
}

impl RootEntry {
    /// The entry `name` in the directory at the path `dir`, which may contain links.
    pub(crate) fn new(dir: impl Into<PathBuf>, name: &[u8]) -> Self {
        Self { dir: dir.into(), name: name.to_vec(), above: AboveRoot::Followed }
    }
}

/// Resolves a place. `~` is expanded only for a remote client; locally the shell has done that.
pub(crate) fn resolve(place: &Place, remote: bool) -> Result<RootEntry> {
    let path = if remote { expand_home(&place.path)? } else { place.path.clone() };
    let path = if path.is_empty() { b".".to_vec() } else { path };
    let inside = |name: &[u8]| RootEntry::new(OsStr::from_bytes(&path), name);
    Ok(match &place.root {
        PlaceRoot::Inside(name) => inside(name),
        PlaceRoot::InsideIfDir(name) if PathBuf::from(OsStr::from_bytes(&path)).is_dir() => inside(name),
        PlaceRoot::Exactly | PlaceRoot::InsideIfDir(_) => exactly(&path),
    })
}

/// Whether `..` leaves a directory of this path that is missing: making the path
/// would make that one, too.
pub(crate) fn leaves_missing(dir: &Path) -> bool {
    let mut left = dir.ancestors().filter(|path| path.ends_with("..")).filter_map(Path::parent);
    left.any(|above| !above.as_os_str().is_empty() && !above.exists())
}

fn exactly(path: &[u8]) -> RootEntry {
    let trimmed = path.strip_suffix(b"/").map_or(path, trim_slashes);
    let at = trimmed.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
    let (dir, name) = trimmed.split_at(at);
    if path.ends_with(b"/") || matches!(name, b"" | b"." | b"..") {
        let dir = if trimmed.is_empty() { b"/" } else { trimmed };
        return RootEntry::new(OsStr::from_bytes(dir), b".");
    }
    let dir = if dir.is_empty() { b"." } else { dir };
    RootEntry::new(OsStr::from_bytes(dir), name)
}

fn trim_slashes(mut path: &[u8]) -> &[u8] {
    while let Some(shorter) = path.strip_suffix(b"/") {
        path = shorter;
    }
    path
}

fn expand_home(path: &[u8]) -> Result<Vec<u8>> {
    let Some(rest) = path.strip_prefix(b"~") else { return Ok(path.to_vec()) };
    let at = rest.iter().position(|b| *b == b'/').unwrap_or(rest.len());
    let (user, below) = rest.split_at(at);
    let home = if user.is_empty() {
        std::env::home_dir().map(|home| home.into_os_string().into_vec())
    } else {
        uzers::get_user_by_name(OsStr::from_bytes(user)).map(|u| u.home_dir().as_os_str().as_bytes().to_vec())
    };
    let Some(mut home) = home else {
        return Err(Error::new(
            ErrorKind::NotFound,
            Side::Local,
            "find the home directory of",
            "there is no such user",
        )
        .on(path));
    };
    home.extend_from_slice(below);
    Ok(home)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(path: &str) -> (String, String) {
        let place = Place { path: path.into(), root: PlaceRoot::Exactly };
        let base = resolve(&place, false).unwrap();
        (base.dir.display().to_string(), String::from_utf8(base.name).unwrap())
    }

    #[test]
    fn a_trailing_slash_means_the_directory_itself() {
        assert_eq!(base("/a/b"), ("/a/".into(), "b".into()));
        assert_eq!(base("/a/b//"), ("/a/b".into(), ".".into()));
        assert_eq!(base("b"), (".".into(), "b".into()));
        assert_eq!(base("/"), ("/".into(), ".".into()));
        assert_eq!(base("a/.."), ("a/..".into(), ".".into()));
        assert_eq!(base(""), (".".into(), ".".into()));
    }

    #[test]
    fn a_path_through_a_missing_directory_is_recognized() {
        let scratch = tempfile::tempdir().unwrap();
        let of = |path: &str| leaves_missing(&scratch.path().join(path));
        assert!(of("new/..") && of("new/../x") && of("new/x/../../y") && of("../../none/../x"));
        assert!(!of("new/x") && !of("../x") && !of("") && !of("x..y/z"));
        assert!(!leaves_missing(Path::new("..")) && !leaves_missing(Path::new("../x")));
    }

    #[test]
    fn a_name_is_inside_of_the_path_if_the_place_says_so() {
        let of = |path: &str, root| resolve(&Place { path: path.into(), root }, false).unwrap();
        let inside = of("/a", PlaceRoot::Inside(b"x".to_vec()));
        assert_eq!((inside.dir.to_str(), &inside.name[..]), (Some("/a"), &b"x"[..]));
        let if_dir = |path| of(path, PlaceRoot::InsideIfDir(b"x".to_vec())).name;
        assert_eq!((if_dir("/"), if_dir("/missing")), (b"x".to_vec(), b"missing".to_vec()));
    }

    #[test]
    fn a_tilde_is_a_home_directory_for_remote_clients_only() {
        let of = |path: &str, remote| {
            let place = Place { path: path.into(), root: PlaceRoot::Exactly };
            resolve(&place, remote).map(|base| base.dir.join(OsStr::from_bytes(&base.name)))
        };
        let home = std::env::home_dir().unwrap();
        assert_eq!(of("~/x", true).unwrap(), home.join("x"));
        assert_eq!(of("~root/x", true).unwrap(), PathBuf::from("/root/x"));
        assert_eq!(of("~/x", false).unwrap(), PathBuf::from("~/x"));
        assert_eq!(of("~no-such-user/x", true).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
