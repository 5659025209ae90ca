//! Refusing to copy a tree into itself.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use haul_core::filter::{Filter, Rules, RulesAbove};
use haul_core::{Location, Place, PlaceRoot, RelPath, Result};

use super::errors::usage;

/// Refuses a destination that equals the source or is inside it without being excluded; with `deletes`, also a source
/// that is inside the destination. Checks local paths and places in one bucket. A source that is a symbolic link is
/// copied as a link and overlaps nothing.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`].
pub(crate) fn refuse_overlap(
    source: &Location,
    destination: &Location,
    place: &Place,
    rules: &Rules,
    deletes: bool,
) -> Result<()> {
    if let (Location::Object(from), Location::Object(to)) = (source, destination)
        && from.is_beside(to)
    {
        return within_bucket(source, &from.key, place, rules, deletes);
    }
    let (Location::Local(from), Location::Local(_)) = (source, destination) else { return Ok(()) };
    if !source.means_contents() && Path::new(OsStr::from_bytes(from)).is_symlink() {
        return Ok(());
    }
    let (Ok(from), Ok(to)) = (real(from), real_root(place)) else { return Ok(()) };
    compare(source, &from, &to, rules, deletes)
}

/// The same for two places in one bucket, with keys as paths.
fn within_bucket(source: &Location, from: &str, place: &Place, rules: &Rules, deletes: bool) -> Result<()> {
    let path = |key: &[u8]| Path::new("/").join(OsStr::from_bytes(key));
    let to = match &place.root {
        PlaceRoot::Exactly => path(&place.path),
        PlaceRoot::Inside(name) | PlaceRoot::InsideIfDir(name) => {
            path(&place.path).join(OsStr::from_bytes(name))
        }
    };
    compare(source, &path(from.as_bytes()), &to, rules, deletes)
}

fn compare(source: &Location, from: &Path, to: &Path, rules: &Rules, deletes: bool) -> Result<()> {
    let refuse =
        |cause: &str, hint: &str| Err(usage("copy", cause).on(source.to_string()).with_hint(hint.to_owned()));
    if from == to {
        return refuse("source and destination are the same", "choose another destination");
    }
    if let Ok(below) = to.strip_prefix(from)
        && !is_excluded(below, rules)
    {
        let hint = "choose a destination outside of the source, or exclude it with --exclude";
        return refuse("the destination is inside the source", hint);
    }
    if deletes && from.starts_with(to) {
        return refuse(
            "the source is inside the destination and would be deleted",
            "use `haul copy`, which never deletes",
        );
    }
    Ok(())
}

/// Files of rules in the tree are not read for this.
fn is_excluded(below: &Path, rules: &Rules) -> bool {
    let Ok((filter, top)) = Filter::open(rules, |_| Ok(RulesAbove::default())) else { return false };
    let mut path = RelPath::root();
    for component in below.components() {
        let Ok(next) = path.join(component.as_os_str().as_bytes()) else { return false };
        path = next;
        if filter.excludes(&top, &path, true).is_some() {
            return true;
        }
    }
    false
}

/// The real path of the root of a local place, which need not exist yet.
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

/// The path with symbolic links resolved as far as it exists.
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
    use haul_core::filter::Rule;

    use super::*;
    use crate::place::{Landing, destination_place};

    fn check(source: &Path, destination: &Path, slash: bool, rules: &[Rule], deletes: bool) -> bool {
        let rules: &Rules = &rules.to_vec().into();
        let mut from = source.as_os_str().as_bytes().to_vec();
        if slash {
            from.push(b'/');
        }
        let from = Location::Local(from);
        let to = Location::Local(destination.as_os_str().as_bytes().to_vec());
        let landing = Landing { is_dir: source.is_dir(), several: false, listed: false };
        let place = destination_place(&from, &to, landing);
        refuse_overlap(&from, &to, &place, rules, deletes).is_ok()
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
        assert!(check(&at("a"), &at("a/b"), true, &[Rule::exclude("/b")], false), "excluded");
        assert!(check(&at("link"), &at("a/b"), false, &[], false), "the link itself");
        assert!(!check(&at("link"), &at("a/b"), true, &[], false), "the target of the link");
        assert!(check(&at("a/b"), &at("a"), true, &[], false), "upwards");
        assert!(!check(&at("a/b"), &at("a"), true, &[], true), "upwards, and deleting");
        assert!(check(&at("a"), &at("z"), false, &[], true));
    }
}
