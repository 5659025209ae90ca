//! Refusing to copy a tree into itself.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use haul_core::filter::{Filter, Rules, RulesAbove};
use haul_core::location::SmbServer;
use haul_core::{Location, Place, PlaceRoot, RelPath, Result};

use super::errors::usage;

/// Refuses a destination that equals the source or is inside it without being excluded; with `deletes`, also a source
/// that is inside the destination. Checks local paths, and places on one host, share or bucket by their names. A source
/// that is a symbolic link here is copied as a link and overlaps nothing.
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
    if let (Some((from_at, from)), Some((to_at, to))) = (elsewhere(source), elsewhere(destination)) {
        let Some((from, to)) = plain(from).zip(plain(to)).filter(|_| from_at == to_at) else { return Ok(()) };
        let to = match &place.root {
            PlaceRoot::Inside(name) => to.join(OsStr::from_bytes(name)),
            // An entry that holds the source is a directory.
            PlaceRoot::InsideIfDir(name) if from != to && from.starts_with(&to) => {
                to.join(OsStr::from_bytes(name))
            }
            PlaceRoot::Exactly | PlaceRoot::InsideIfDir(_) => to,
        };
        return compare(source, &from, &to, rules, deletes);
    }
    let (Location::Local(from), Location::Local(_)) = (source, destination) else { return Ok(()) };
    if !source.means_contents() && Path::new(OsStr::from_bytes(from)).is_symlink() {
        return Ok(());
    }
    let (Ok(from), Ok(to)) = (real(from), real_root(place)) else { return Ok(()) };
    compare(source, &from, &to, rules, deletes)
}

/// The host or share of a location on another machine, and the path there.
fn elsewhere(at: &Location) -> Option<(String, &[u8])> {
    match at {
        Location::Ssh { host, path } | Location::Sftp { host, path } => Some((host.to_string(), path)),
        Location::Smb { server, path } => {
            let server = SmbServer { domain: None, user: None, ..server.clone() };
            Some((server.to_string(), path))
        }
        Location::Local(_) | Location::Object(_) => None,
    }
}

/// A path on another machine without needless components; `None` if its text does not tell where it leads.
fn plain(path: &[u8]) -> Option<PathBuf> {
    // A relative path begins in the home directory.
    let mut plain = PathBuf::from(if path.starts_with(b"/") { "/" } else { "" });
    let path = if path == b"~" { b"" } else { path.strip_prefix(b"~/").unwrap_or(path) };
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => return None,
            name => plain.push(OsStr::from_bytes(name)),
        }
    }
    Some(plain)
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

    /// Whether a copy of directories on other machines is allowed.
    fn is_allowed(source: &str, destination: &str, deletes: bool) -> bool {
        let [from, to] = [source, destination].map(|text| Location::parse(text.as_bytes()).unwrap());
        let place = destination_place(&from, &to, Landing { is_dir: true, several: false, listed: false });
        refuse_overlap(&from, &to, &place, &Vec::new().into(), deletes).is_ok()
    }

    #[test]
    fn refuses_a_tree_in_itself_on_another_machine() {
        for at in ["h:", "sftp://h", "smb://h/share"] {
            let allowed = |source: &str, destination: &str, deletes| {
                is_allowed(&format!("{at}{source}"), &format!("{at}{destination}"), deletes)
            };
            assert!(!allowed("/t/a/", "/t/", true) && allowed("/t/a/", "/t/", false), "{at}: upwards");
            assert!(
                !allowed("/t/", "/t/x/", false) && !allowed("/t/", "/t//./x", false),
                "{at}: below itself"
            );
            assert!(!allowed("/t/a", "/t", false) && !allowed("/t/", "/t/", false), "{at}: onto itself");
            assert!(allowed("/t/a/", "/t/b/", true) && allowed("/t/a", "/t/b", true), "{at}: beside it");
            assert!(allowed("/t/a/", "/t/ab/", true), "{at}: a name that begins with its name");
        }
        assert!(is_allowed("h:/t/../a/", "h:/t/", true), "the text does not tell");
        assert!(!is_allowed("h:t/", "h:t/x", false) && !is_allowed("h:~/t/", "h:t/x", false), "in the home");
        assert!(is_allowed("h:/t/~/", "h:/t/x", false), "a name that means the home only at the beginning");
        assert!(!is_allowed("h:/t/", "sftp://h/t/x", false), "by another way");
        assert!(is_allowed("h:/t/", "other:/t/x", false), "on another machine");
    }

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
