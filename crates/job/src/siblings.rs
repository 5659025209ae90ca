//! Groups sources of the same directory, so that `haul copy *.db host:/dst/` runs once over many files instead of many
//! times over one.

use std::collections::{HashMap, HashSet};

use haul_core::{Location, ObjectPlace, RelPath};

/// Sources that are copied together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SiblingGroup {
    /// A single source, as given.
    One(Location),
    /// Several sources in one directory.
    Siblings {
        /// The directory.
        parent: Location,
        /// The names in it, without duplicates.
        names: Vec<RelPath>,
    },
}

/// Groups sources, ordered by the first source of each group.
pub(crate) fn group(sources: &[Location]) -> Vec<SiblingGroup> {
    let mut groups: Vec<SiblingGroup> = Vec::new();
    let mut at: HashMap<String, (usize, HashSet<RelPath>)> = HashMap::new();
    for source in sources {
        let Some((parent, name)) = split(source) else {
            groups.push(SiblingGroup::One(source.clone()));
            continue;
        };
        let key = format!("{parent:?}");
        let (place, known) = at.entry(key).or_insert_with(|| (groups.len(), HashSet::new()));
        if !known.insert(name.clone()) {
            continue;
        }
        match groups.get_mut(*place) {
            Some(SiblingGroup::Siblings { names, .. }) => names.push(name),
            _ => groups.push(SiblingGroup::Siblings { parent, names: vec![name] }),
        }
    }
    let single = |group| match group {
        SiblingGroup::Siblings { parent, names } => match names.as_slice() {
            [name] => SiblingGroup::One(join(&parent, name)),
            _ => SiblingGroup::Siblings { parent, names },
        },
        one @ SiblingGroup::One(_) => one,
    };
    groups.into_iter().map(single).collect()
}

/// The location of `name` in the directory `parent`.
pub(crate) fn join(parent: &Location, name: &RelPath) -> Location {
    with_path(parent, [parent.path(), name.as_bytes()].concat())
}

/// The directory of a source, with a trailing slash, and the name in it; `None` if the contents of the source are
/// copied.
pub(crate) fn split(source: &Location) -> Option<(Location, RelPath)> {
    if source.means_contents() || is_home(source) {
        return None;
    }
    let name = RelPath::root().join(source.name()).ok()?;
    let path = source.path();
    Some((with_path(source, path[..path.len() - source.name().len()].to_vec()), name))
}

/// Whether a source is `host:~user`, a directory whose name haul does not know.
pub(crate) fn is_home(source: &Location) -> bool {
    let remote = matches!(source, Location::Ssh { .. } | Location::Sftp { .. });
    remote && source.path().starts_with(b"~") && !source.path().contains(&b'/')
}

/// The location of another path of the same kind, at the same host or in the same bucket.
pub(crate) fn with_path(like: &Location, path: Vec<u8>) -> Location {
    match like {
        Location::Local(_) => Location::Local(path),
        Location::Ssh { host, .. } => Location::Ssh { host: host.clone(), path },
        Location::Sftp { host, .. } => Location::Sftp { host: host.clone(), path },
        Location::Smb { server, .. } => Location::Smb { server: server.clone(), path },
        Location::Object(place) => {
            let key = String::from_utf8_lossy(&path).into_owned();
            Location::Object(ObjectPlace { key, ..place.clone() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grouped(sources: &[&str]) -> Vec<String> {
        let sources: Vec<Location> =
            sources.iter().map(|source| Location::parse(source.as_bytes()).unwrap()).collect();
        let show = |group| match group {
            SiblingGroup::One(one) => one.to_string(),
            SiblingGroup::Siblings { parent, names } => format!("{parent} + {names:?}"),
        };
        group(&sources).into_iter().map(show).collect()
    }

    #[test]
    fn sources_in_one_directory_are_grouped() {
        assert_eq!(grouped(&["d/a", "d/b", "e/", "d/c", "d/a"]), ["d/ + [`a`, `b`, `c`]", "e/"]);
        assert_eq!(grouped(&["h:a", "h:b", "g:a", "a"]), ["h: + [`a`, `b`]", "g:a", "a"]);
        assert_eq!(grouped(&["/a", "/b"]), ["/ + [`a`, `b`]"]);
        assert_eq!(grouped(&["d/..", "h:~bob", "h:~eve", "."]), ["d/..", "h:~bob", "h:~eve", "."]);
        assert_eq!(grouped(&["x/a", "y/a"]), ["x/a", "y/a"]);
    }
}
