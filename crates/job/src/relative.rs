//! `--relative`: the paths of the sources are kept below the destination.

use std::collections::HashSet;

use haul_core::{Location, Place, PlaceRoot, RelPath, Result};

use super::errors::usage;
use super::place::dir_place;
use super::siblings::with_path;

/// Sources below one directory, which is not copied itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RelativeSources {
    /// The directory.
    pub(crate) base: Location,
    /// The paths in it, which are also those at the destination, without duplicates.
    pub(crate) paths: Vec<RelPath>,
    /// Those of them that end with a slash: if they are links, the directories behind them are meant.
    pub(crate) with_slash: Vec<RelPath>,
}

/// Groups sources that follow each other and are relative to the same directory. Their order stays, because the first
/// source of several that have a path counts.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if a path that is kept contains `..`.
pub(crate) fn relative_sources(sources: &[Location]) -> Result<Vec<RelativeSources>> {
    let mut groups: Vec<RelativeSources> = Vec::new();
    let mut known = HashSet::new();
    for source in sources {
        let (base, kept) = split(source.path());
        let path = RelPath::tidy(kept).map_err(|bad| {
            let error = usage("use --relative", format!("{bad} in the path")).on(source.to_string());
            error.with_hint("write `/./` before the part of the path that is to be kept")
        })?;
        let base = with_path(source, base.to_vec());
        if !known.insert(format!("{base:?} {path:?}")) {
            continue;
        }
        match groups.last_mut() {
            Some(group) if group.base == base => group.paths.push(path.clone()),
            _ => groups.push(RelativeSources { base, paths: vec![path.clone()], with_slash: Vec::new() }),
        }
        if let Some(group) = groups.last_mut()
            && kept.ends_with(b"/")
            && !path.is_root()
        {
            group.with_slash.push(path);
        }
    }
    Ok(groups)
}

/// Splits a path into the directory that it is relative to, and the part that is kept. As in rsync, that is the part
/// after the first `/./`, or else the whole path without the slash at its beginning. The name of a home is not kept.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    if let Some(at) = path.windows(3).position(|bytes| bytes == b"/./") {
        return (&path[..=at], &path[at + 3..]);
    }
    let end = match path.first() {
        Some(b'/') => 1,
        Some(b'~') => path.iter().position(|byte| *byte == b'/').map_or(path.len(), |slash| slash + 1),
        _ => 0,
    };
    path.split_at(end)
}

/// The location of one of the paths.
pub(crate) fn location_of(base: &Location, path: &RelPath) -> Location {
    with_path(base, [base.path(), path.as_bytes()].concat())
}

/// The location of the content of the directory behind a link, and its place at the destination.
pub(crate) fn behind_link(base: &Location, destination: &Location, path: &RelPath) -> (Location, Place) {
    let with_slash = |above: &[u8]| [above, path.as_bytes(), b"/"].concat();
    let place = Place { path: with_slash(&dir_place(destination).path), root: PlaceRoot::Exactly };
    (with_path(base, with_slash(base.path())), place)
}

/// The place of a path at the destination.
pub(crate) fn place_of(destination: &Location, path: &RelPath) -> Place {
    let dir = dir_place(destination);
    let Some(parent) = path.parent() else { return dir };
    let above = [&dir.path[..], parent.as_bytes()].concat();
    Place { path: above, root: PlaceRoot::Inside(path.name().to_vec()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grouped(sources: &[&str]) -> Vec<String> {
        let sources: Vec<Location> =
            sources.iter().map(|source| Location::parse(source.as_bytes()).unwrap()).collect();
        let groups = relative_sources(&sources).unwrap();
        groups.into_iter().map(|group| format!("{} + {:?}", group.base, group.paths)).collect()
    }

    #[test]
    fn the_path_from_the_dot_on_is_kept() {
        assert_eq!(grouped(&["/a/b", "/c//d/", "/a/b/"]), ["/ + [`a/b`, `c/d`]"]);
        assert_eq!(grouped(&["/a/./b/./c", "/a/./d"]), ["/a/ + [`b/c`, `d`]"]);
        assert_eq!(grouped(&["./a/b", "h:a/./b"]), [" + [`a/b`]", "h:a/ + [`b`]"]);
        assert_eq!(grouped(&["h:~bob/a/b", "h:~/x"]), ["h:~bob/ + [`a/b`]", "h:~/ + [`x`]"]);
        assert_eq!(grouped(&["/a", "x", "/b", "/a"]), ["/ + [`a`]", " + [`x`]", "/ + [`b`]"]);
        assert_eq!(grouped(&["s3://b/x/y"]), ["s3://b/ + [`x/y`]"]);
        let Location::Object(place) = Location::parse(b"s3://b/x").unwrap() else { panic!("no object") };
        let marked = Location::Object(haul_core::ObjectPlace { key: "x/./y/z".to_owned(), ..place });
        let groups = relative_sources(&[marked]).unwrap();
        assert_eq!((groups[0].base.to_string(), groups[0].paths.len()), ("s3://b/x/".to_owned(), 1));
        assert_eq!(groups[0].paths[0].as_bytes(), b"y/z");
        let up = Location::parse(b"a/../b").unwrap();
        assert!(format!("{:?}", relative_sources(&[up]).unwrap_err()).contains("`/./`"));
        assert_eq!(grouped(&["a/../b/./c"]), ["a/../b/ + [`c`]"]);
    }

    #[test]
    fn a_slash_at_the_end_is_remembered() {
        let sources = ["a/b/", "a/c", "a/./"].map(|source| Location::parse(source.as_bytes()).unwrap());
        let groups = relative_sources(&sources).unwrap();
        assert_eq!(groups[0].with_slash, [RelPath::tidy(b"a/b").unwrap()]);
        assert_eq!(groups[1].with_slash, []);
        let destination = Location::parse(b"h:dst").unwrap();
        let (at, place) = behind_link(&groups[0].base, &destination, &groups[0].with_slash[0]);
        assert_eq!(at.to_string(), "a/b/");
        assert_eq!(place, Place { path: b"dst/a/b/".to_vec(), root: PlaceRoot::Exactly });
    }

    #[test]
    fn a_path_has_a_place_below_the_destination() {
        let destination = Location::parse(b"h:dst").unwrap();
        let of = |path: &str| place_of(&destination, &RelPath::tidy(path.as_bytes()).unwrap());
        assert_eq!(of("a/b"), Place { path: b"dst/a".to_vec(), root: PlaceRoot::Inside(b"b".to_vec()) });
        assert_eq!(of("a"), Place { path: b"dst/".to_vec(), root: PlaceRoot::Inside(b"a".to_vec()) });
        assert_eq!(of("."), dir_place(&destination));
    }
}
