//! Sources that lie in one folder are copied together: `haul copy *.db host:/dst/` is one run over many files, not
//! many runs over one.

use std::collections::{HashMap, HashSet};

use haul_core::{Location, ObjectPlace, RelPath};

/// Sources that are copied together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// One, as it was given.
    One(Location),
    /// Some that lie in the folder `parent`, by their names in it.
    Siblings {
        /// The folder.
        parent: Location,
        /// The names, each once.
        names: Vec<RelPath>,
    },
}

/// Groups sources, in the order in which the first of each group was given.
pub(crate) fn group(sources: &[Location]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut at: HashMap<String, (usize, HashSet<RelPath>)> = HashMap::new();
    for source in sources {
        let Some((parent, name)) = split(source) else {
            groups.push(Group::One(source.clone()));
            continue;
        };
        let key = format!("{parent:?}");
        let (place, known) = at.entry(key).or_insert_with(|| (groups.len(), HashSet::new()));
        if !known.insert(name.clone()) {
            continue;
        }
        match groups.get_mut(*place) {
            Some(Group::Siblings { names, .. }) => names.push(name),
            _ => groups.push(Group::Siblings { parent, names: vec![name] }),
        }
    }
    let single = |group| match group {
        Group::Siblings { parent, names } => match names.as_slice() {
            [name] => Group::One(join(&parent, name)),
            _ => Group::Siblings { parent, names },
        },
        one @ Group::One(_) => one,
    };
    groups.into_iter().map(single).collect()
}

/// The location of `name` in the folder `parent`.
pub(crate) fn join(parent: &Location, name: &RelPath) -> Location {
    with_path(parent, [parent.path(), name.as_bytes()].concat())
}

/// The folder that holds a source, with a slash at its end, and the name in it; `None` where the source is meant as
/// what is in it.
pub(crate) fn split(source: &Location) -> Option<(Location, RelPath)> {
    if source.means_contents() || is_home(source) {
        return None;
    }
    let name = RelPath::root().join(source.name()).ok()?;
    let path = source.path();
    Some((with_path(source, path[..path.len() - source.name().len()].to_vec()), name))
}

/// Whether it is `host:~user`, a folder whose name haul does not know.
pub(crate) fn is_home(source: &Location) -> bool {
    let remote = matches!(source, Location::Ssh { .. } | Location::Sftp { .. });
    remote && source.path().starts_with(b"~") && !source.path().contains(&b'/')
}

fn with_path(like: &Location, path: Vec<u8>) -> Location {
    match like {
        Location::Local(_) => Location::Local(path),
        Location::Ssh { host, .. } => Location::Ssh { host: host.clone(), path },
        Location::Sftp { host, .. } => Location::Sftp { host: host.clone(), path },
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
            Group::One(one) => one.to_string(),
            Group::Siblings { parent, names } => format!("{parent} + {names:?}"),
        };
        group(&sources).into_iter().map(show).collect()
    }

    #[test]
    fn what_lies_in_one_folder_goes_together() {
        assert_eq!(grouped(&["d/a", "d/b", "e/", "d/c", "d/a"]), ["d/ + [`a`, `b`, `c`]", "e/"]);
        assert_eq!(grouped(&["h:a", "h:b", "g:a", "a"]), ["h: + [`a`, `b`]", "g:a", "a"]);
        assert_eq!(grouped(&["/a", "/b"]), ["/ + [`a`, `b`]"]);
        assert_eq!(grouped(&["d/..", "h:~bob", "h:~eve", "."]), ["d/..", "h:~bob", "h:~eve", "."]);
        assert_eq!(grouped(&["x/a", "y/a"]), ["x/a", "y/a"]);
    }
}
