//! What is kept of each entry, and the order in which a tree is read.

use std::cmp::Ordering;

use haul_core::RelPath;
use serde::{Deserialize, Serialize};

/// Paths in the order of a walk: a folder comes right before what is below it, and all of that before what follows
/// the folder. That is the order of bytes, with `/` before all others.
pub(crate) fn tree_order(one: &RelPath, other: &RelPath) -> Ordering {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let rank = |byte: u8| if byte == b'/' { 0 } else { byte };
    match one.iter().zip(other).find(|(a, b)| a != b) {
        Some((a, b)) => rank(*a).cmp(&rank(*b)),
        None => one.len().cmp(&other.len()),
    }
}

/// An entry, as the list that is sorted by path holds it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) path: RelPath,
    pub(crate) is_dir: bool,
    /// Bytes of content without holes; 0 for further names of a file.
    pub(crate) bytes: u64,
    /// The names of one file that are in the tree, if there is more than one.
    pub(crate) group: Option<Group>,
}

/// The names of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Group {
    /// Tells groups apart.
    pub(crate) number: u64,
    /// How many names of it are in the tree.
    pub(crate) names: u64,
}

impl PartialEq for Found {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for Found {}

impl PartialOrd for Found {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Found {
    fn cmp(&self, other: &Self) -> Ordering {
        tree_order(&self.path, &other.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_a_folder_follows_it() {
        let mut paths: Vec<RelPath> = ["a.b", "a/c", "", "a", "a\tx", "a/b/c", "a/b", "b"]
            .iter()
            .map(|path| RelPath::new(path.as_bytes()).unwrap())
            .collect();
        paths.sort_by(tree_order);
        let names: Vec<&[u8]> = paths.iter().map(RelPath::as_bytes).collect();
        assert_eq!(names, [&b""[..], b"a", b"a/b", b"a/b/c", b"a/c", b"a\tx", b"a.b", b"b"]);
    }
}
