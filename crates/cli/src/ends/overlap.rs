//! Refusing to copy a tree into itself.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use haul_core::filter::{Rule, excludes};
use haul_core::{Location, Place, PlaceRoot, RelPath, Result};

use crate::settings::usage;

/// Refuses a destination that is the source, or lies in it and is not left out by the rules; and, with `removes`,
/// a source that lies in the destination. Only ends on this machine are looked at. A source that is a symbolic link
/// is copied as such and overlaps nothing.
///
/// # Errors
/// A usage error that says which.
pub(crate) fn refuse_overlap(
    source: &Location,
    destination: &Location,
    place: &Place,
    rules: &[Rule],
    removes: bool,
) -> Result<()> {
    if let (Location::Object(from), Location::Object(to)) = (source, destination)
        && (from.kind, &from.bucket) == (to.kind, &to.bucket)
    {
        return within_bucket(source, &from.key, place, rules, removes);
    }
    let (Location::Local(from), Location::Local(_)) = (source, destination) else { return Ok(()) };
    if !source.means_contents() && Path::new(OsStr::from_bytes(from)).is_symlink() {
        return Ok(());
    }
    let (Ok(from), Ok(to)) = (real(from), real_root(place)) else { return Ok(()) };
    compare(source, &from, &to, rules, removes)
}

/// The same for two places in one bucket, whose keys are taken as paths.
fn within_bucket(source: &Location, from: &str, place: &Place, rules: &[Rule], removes: bool) -> Result<()> {
    let path = |key: &[u8]| Path::new("/").join(OsStr::from_bytes(key));
    let to = match &place.root {
        PlaceRoot::Exactly => path(&place.path),
        PlaceRoot::Inside(name) | PlaceRoot::InsideIfDir(name) => {
            path(&place.path).join(OsStr::from_bytes(name))
        }
    };
    compare(source, &path(from.as_bytes()), &to, rules, removes)
}

fn compare(source: &Location, from: &Path, to: &Path, rules: &[Rule], removes: bool) -> Result<()> {
    let refuse =
        |cause: &str, hint: &str| Err(usage("copy", cause).on(source.to_string()).with_hint(hint.to_owned()));
    if from == to {
        return refuse("source and destination are the same", "give another destination");
    }
    if let Ok(below) = to.strip_prefix(from)
        && !is_left_out(below, rules)
    {
        let hint = "copy to a place outside of the source, or leave the destination out with --exclude";
        return refuse("the destination lies in the source", hint);
    }
    if removes && from.starts_with(to) {
        return refuse(
            "the source lies in the destination, and would be removed there",
            "use `haul copy`, which removes nothing",
        );
    }
    Ok(())
}

fn is_left_out(below: &Path, rules: &[Rule]) -> bool {
    let mut path = RelPath::root();
    for component in below.components() {
        let Ok(next) = path.join(component.as_os_str().as_bytes()) else { return false };
        path = next;
        if excludes(rules, &path, true) {
            return true;
        }
    }
    false
}

/// Where the root of a local place really is, or will be.
fn real_root(place: &Place) -> io::Result<PathBuf> {
    let path = real(&place.path)?;
    Ok(match &place.root {
        PlaceRoot::Exactly => path,
        PlaceRoot::InsideIfDir(_) if !path.is_dir() => path,
        PlaceRoot::Inside(name) | PlaceRoot::InsideIfDir(name) => {
            let inside = path.join(OsStr::from_bytes(name));
            inside.canonicalize().unwrap_or(inside)
        }
    })
}

/// The path with links resolved, as far as it exists; the rest is taken as it is.
fn real(path: &[u8]) -> io::Result<PathBuf> {
    let path = if path.is_empty() { Path::new(".") } else { Path::new(OsStr::from_bytes(path)) };
    let path = std::path::absolute(path)?;
    let mut rest = Vec::new();
    let mut head = path.as_path();
    loop {
        if let Ok(mut real) = head.canonicalize() {
            real.extend(rest.iter().rev());
            return Ok(real);
        }
        match (head.parent(), head.components().next_back()) {
            (Some(parent), Some(last @ Component::Normal(_))) => {
                rest.push(last);
                head = parent;
            }
            _ => return Ok(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ends::{Landing, destination_place};

    fn check(source: &Path, destination: &Path, slash: bool, rules: &[Rule], removes: bool) -> bool {
        let mut from = source.as_os_str().as_bytes().to_vec();
        if slash {
            from.push(b'/');
        }
        let from = Location::Local(from);
        let to = Location::Local(destination.as_os_str().as_bytes().to_vec());
        let landing = Landing { is_dir: source.is_dir(), several: false, listed: false };
        let place = destination_place(&from, &to, landing);
        refuse_overlap(&from, &to, &place, rules, removes).is_ok()
    }

    #[test]
    fn refuses_a_tree_in_itself() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/f"), b"x").unwrap();
        std::os::unix::fs::symlink("a", root.join("link")).unwrap();
        let at = |name: &str| root.join(name);
        assert!(!check(&at("a"), &at("a"), true, &[], false), "into itself");
        assert!(!check(&at("a"), &at("a/new/deep"), true, &[], false), "below itself");
        assert!(!check(&at("a"), &at("link/new"), true, &[], false), "below itself by a link");
        assert!(!check(&at("a"), root, false, &[], false), "onto itself");
        assert!(!check(&at("a/f"), &at("a"), false, &[], false), "a file onto itself");
        assert!(!check(&at("a/f"), &at("link/f"), false, &[], false), "a file onto itself by a link");
        assert!(check(&at("a"), &at("ab"), true, &[], false), "beside it");
        assert!(check(&at("a"), &at("a/b"), true, &[Rule::exclude("/b")], false), "left out");
        assert!(check(&at("link"), &at("a/b"), false, &[], false), "the link itself");
        assert!(!check(&at("link"), &at("a/b"), true, &[], false), "what the link leads to");
        assert!(check(&at("a/b"), &at("a"), true, &[], false), "upwards");
        assert!(!check(&at("a/b"), &at("a"), true, &[], true), "upwards, and removing");
        assert!(check(&at("a"), &at("z"), false, &[], true));
    }
}
