//! The record of each entry, and the order of a tree.

use std::cmp::Ordering;

use haul_core::RelPath;
use serde::{Deserialize, Serialize};

/// Compares paths in tree order: the content of a directory directly follows the directory. This is byte order with `/`
/// before all other bytes.
pub(crate) fn tree_order(one: &RelPath, other: &RelPath) -> Ordering {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let rank = |byte: u8| if byte == b'/' { 0 } else { byte };
    match one.iter().zip(other).find(|(a, b)| a != b) {
        Some((a, b)) => rank(*a).cmp(&rank(*b)),
        None => one.len().cmp(&other.len()),
    }
}

/// An entry in the list that is sorted by path.
#[derive(Serialize, Deserialize)]
pub(crate) struct ScannedEntry {
    pub(crate) path: RelPath,
    pub(crate) is_dir: bool,
    /// Bytes of content without holes; 0 for further names of a file.
    pub(crate) bytes: u64,
    /// The group of a file with several names in the tree.
    pub(crate) group: Option<HardLinkGroup>,
}

/// The names of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HardLinkGroup {
    /// Identifies the group.
    pub(crate) number: u64,
    /// How many of its names are in the tree.
    pub(crate) names: u64,
}

impl PartialEq for ScannedEntry {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for ScannedEntry {}

impl PartialOrd for ScannedEntry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ScannedEntry {
    fn cmp(&self, other: &Self) -> Ordering {
        tree_order(&self.path, &other.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_of_a_directory_follows_it() {
        let mut paths: Vec<RelPath> = ["a.b", "a/c", "", "a", "a\tx", "a/b/c", "a/b", "b"]
            .iter()
            .map(|path| RelPath::new(path.as_bytes()).unwrap())
            .collect();
        paths.sort_by(tree_order);
        let names: Vec<&[u8]> = paths.iter().map(RelPath::as_bytes).collect();
        assert_eq!(names, [&b""[..], b"a", b"a/b", b"a/b/c", b"a/c", b"a\tx", b"a.b", b"b"]);
    }
}
