//! Backups of the entries that a run replaces or removes at the destination (`--backup`).

use serde::{Deserialize, Serialize};

use crate::location::{Place, PlaceRoot};
use crate::path::RelPath;

/// Where the backups go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// The directory that keeps them under their paths, relative to the destination unless it is absolute. `None`: the
    /// directory of each entry.
    pub dir: Option<Vec<u8>>,
    /// The end of the name of a backup. It is not empty if `dir` is `None`.
    pub suffix: Vec<u8>,
}

/// The names at the destination that belong to backups: no entry of a source may have them, and no deletion removes
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupNames {
    /// Names with this end, and everything below them.
    Suffix(Vec<u8>),
    /// This directory and everything in it.
    Dir(RelPath),
}

impl BackupNames {
    /// Whether the path belongs to backups.
    #[must_use]
    pub fn hold(&self, path: &RelPath) -> bool {
        match self {
            Self::Suffix(suffix) => path.components().any(|name| name.ends_with(suffix)),
            Self::Dir(dir) => path
                .as_bytes()
                .strip_prefix(dir.as_bytes())
                .is_some_and(|rest| rest.is_empty() || rest[0] == b'/'),
        }
    }
}

impl Backup {
    /// The names that belong to backups in a tree at this place.
    #[must_use]
    pub fn names(&self, of: &Place) -> Option<BackupNames> {
        match self.dir {
            None => Some(BackupNames::Suffix(self.suffix.clone())),
            Some(_) => self.inner_dir(of).map(BackupNames::Dir),
        }
    }

    /// The directory as a path in the tree at this place, if it is in the tree by its name.
    #[must_use]
    pub fn inner_dir(&self, of: &Place) -> Option<RelPath> {
        let dir = self.dir.as_deref().filter(|dir| !dir.starts_with(b"/"))?;
        if !matches!(of.root, PlaceRoot::Exactly) {
            return None;
        }
        RelPath::tidy(dir).ok().filter(|path| !path.is_root())
    }

    /// Where the backups of a tree at this place go, if they have a directory.
    #[must_use]
    pub fn place(&self, of: &Place) -> Option<Place> {
        Some(twin_place(of, self.dir.as_deref()?))
    }

    /// Where the backup goes if the root at this place is a single file. `None` if it is a directory by its name.
    #[must_use]
    pub fn place_of_file(&self, of: &Place) -> Option<Place> {
        let dir = self.dir.as_deref()?;
        if !matches!(of.root, PlaceRoot::Exactly) {
            return self.place(of);
        }
        let at = of.path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let (above, name) = of.path.split_at(at);
        if matches!(name, b"" | b"." | b"..") {
            return None;
        }
        Some(Place { path: below(above, dir), root: PlaceRoot::Inside(name.to_vec()) })
    }
}

/// The place of a tree with the paths of the tree at `of`, in the directory `dir`, which is relative to the destination
/// of that tree unless it is absolute.
#[must_use]
pub fn twin_place(of: &Place, dir: &[u8]) -> Place {
    let dir = below(&of.path, dir);
    match &of.root {
        PlaceRoot::Exactly => Place { path: [&dir[..], b"/"].concat(), root: PlaceRoot::Exactly },
        PlaceRoot::Inside(name) | PlaceRoot::InsideIfDir(name) => {
            Place { path: dir, root: PlaceRoot::Inside(name.clone()) }
        }
    }
}

/// The path `dir`, below `path` unless it is absolute.
fn below(path: &[u8], dir: &[u8]) -> Vec<u8> {
    match path {
        _ if dir.starts_with(b"/") => dir.to_vec(),
        b"" => dir.to_vec(),
        path if path.ends_with(b"/") => [path, dir].concat(),
        path => [path, b"/", dir].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backup(dir: &str) -> Backup {
        Backup { dir: Some(dir.into()), suffix: Vec::new() }
    }

    fn place(path: &str, root: PlaceRoot) -> Place {
        Place { path: path.into(), root }
    }

    fn path(path: &str) -> RelPath {
        RelPath::new(path.as_bytes()).unwrap()
    }

    #[test]
    fn a_directory_is_relative_to_the_destination() {
        let exactly = || place("/d", PlaceRoot::Exactly);
        let inside = || place("/d/", PlaceRoot::Inside(b"s".to_vec()));
        for (dir, of, expected) in [
            ("old", exactly(), place("/d/old/", PlaceRoot::Exactly)),
            ("../old", exactly(), place("/d/../old/", PlaceRoot::Exactly)),
            ("/old", exactly(), place("/old/", PlaceRoot::Exactly)),
            ("old", place("", PlaceRoot::Exactly), place("old/", PlaceRoot::Exactly)),
            ("old", inside(), place("/d/old", PlaceRoot::Inside(b"s".to_vec()))),
        ] {
            assert_eq!(backup(dir).place(&of), Some(expected), "{dir} {of:?}");
        }
        let file = |of| backup("old").place_of_file(&of);
        assert_eq!(file(exactly()), Some(place("/old", PlaceRoot::Inside(b"d".to_vec()))));
        assert_eq!(
            file(place("d", PlaceRoot::Exactly)),
            Some(place("old", PlaceRoot::Inside(b"d".to_vec())))
        );
        assert_eq!(file(inside()), backup("old").place(&inside()));
        assert_eq!(file(place("/d/", PlaceRoot::Exactly)), None);
    }

    #[test]
    fn names_of_backups_are_known() {
        let exactly = place("/d", PlaceRoot::Exactly);
        let below = backup("./a/old/").names(&exactly).unwrap();
        assert_eq!(below, BackupNames::Dir(path("a/old")));
        for (name, held) in [("a/old", true), ("a/old/x/y", true), ("a/older", false), ("a", false)] {
            assert_eq!(below.hold(&path(name)), held, "{name}");
        }
        for outside in ["../old", "/d/old", "."] {
            assert_eq!(backup(outside).names(&exactly), None, "{outside}");
        }
        assert_eq!(backup("old").names(&place("/d", PlaceRoot::Inside(b"s".to_vec()))), None);
        let suffix = Backup { dir: None, suffix: b"~".to_vec() }.names(&exactly).unwrap();
        for (name, held) in [("f~", true), ("d~/f", true), ("f", false), ("~f", false)] {
            assert_eq!(suffix.hold(&path(name)), held, "{name}");
        }
    }
}
