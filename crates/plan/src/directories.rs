//! Computes the figures of directories in one pass over the tree.

use haul_core::RelPath;

use crate::order::ScannedEntry;
use crate::ranked::RankedEntry;
use crate::top::Top;

/// The figures of the entries below a directory, at any depth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryFigures {
    /// The directory.
    pub path: RelPath,
    /// Bytes in files, without holes. A hard-linked file counts at its first name.
    pub bytes: u64,
    /// Entries.
    pub entries: u64,
}

/// A directory that the pass is in.
struct OpenDirectory {
    /// The length of its path, as a prefix of the innermost path. In a deep tree, storing all paths would take much
    /// more memory.
    end: usize,
    /// Entries in it.
    inside: u64,
    /// Entries and bytes below it, at any depth.
    entries: u64,
    bytes: u64,
}

/// The directories above the current entry, and the largest of those that the pass has left.
pub(crate) struct OpenDirectories {
    open: Vec<OpenDirectory>,
    /// The path of the innermost directory.
    path: RelPath,
    largest: Top<u64>,
    widest: Top,
    deepest: Top,
}

impl OpenDirectories {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            open: Vec::new(),
            path: RelPath::root(),
            largest: Top::new(most),
            widest: Top::new(most),
            deepest: Top::new(most),
        }
    }

    /// Takes the next entry. Returns the directory that the pass has left, if it was empty.
    pub(crate) fn add(&mut self, found: &ScannedEntry) -> Option<RelPath> {
        let mut empty = None;
        while self
            .open
            .last()
            .is_some_and(|directory| !is_below(&found.path, &self.path.as_bytes()[..directory.end]))
        {
            empty = empty.or(self.leave());
        }
        if let Some(directory) = self.open.last_mut() {
            directory.inside += 1;
            directory.entries += 1;
            directory.bytes += found.bytes;
        }
        if found.is_dir {
            self.path = found.path.clone();
            let end = self.path.as_bytes().len();
            self.open.push(OpenDirectory { end, inside: 0, entries: 0, bytes: 0 });
        }
        empty
    }

    /// Leaves the innermost directory. Returns it if it is empty.
    fn leave(&mut self) -> Option<RelPath> {
        let OpenDirectory { end, inside, entries, bytes } = self.open.pop()?;
        let path = self.path.ancestor(end)?;
        if let Some(above) = self.open.last_mut() {
            above.entries += entries;
            above.bytes += bytes;
        }
        if !path.is_root() {
            self.largest.add(bytes, &path, entries);
            self.deepest.add(path.components().count() as u64, &path, ());
        }
        self.widest.add(inside, &path, ());
        (inside == 0 && !path.is_root()).then_some(path)
    }

    /// Leaves all directories; at most the innermost can be empty.
    pub(crate) fn end(&mut self) -> Option<RelPath> {
        let mut empty = None;
        while !self.open.is_empty() {
            empty = empty.or(self.leave());
        }
        empty
    }

    /// The largest, the widest and the deepest directories.
    pub(crate) fn into_figures(self) -> (Vec<DirectoryFigures>, Vec<RankedEntry>, Vec<RankedEntry>) {
        let largest = self.largest.into_vec().into_iter();
        let largest =
            largest.map(|(path, bytes, entries)| DirectoryFigures { path, bytes, entries }).collect();
        (largest, self.widest.into_ranked(), self.deepest.into_ranked())
    }
}

fn is_below(path: &RelPath, directory: &[u8]) -> bool {
    let Some(rest) = path.as_bytes().strip_prefix(directory) else { return false };
    if directory.is_empty() { !rest.is_empty() } else { rest.first() == Some(&b'/') }
}
