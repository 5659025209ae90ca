//! Analyses a tree and splits it into balanced partitions.
//!
//! A [`Collector`] takes the batches of a scan in any order and keeps little of each entry: counts, the largest few,
//! and one record in a list that is sorted by path outside of memory ([`haul_spool::Sorter`]). After the scan, one pass
//! over that list, in which a directory directly precedes its content, computes the figures of directories and splits
//! the tree ([`split`]). A second such list, sorted by inode, finds the names of one file; a third finds names that
//! differ only in case ([`target`]).
//!
//! Memory therefore holds a few lists of 8 MiB, 32 KiB more for each 8 MiB of list on disk, the requested number of
//! largest entries and, while the tree is split, some 50 bytes for each hard-linked file until all of its names were
//! seen.

mod collect;
mod folders;
mod histogram;
mod links;
mod order;
pub mod split;
pub mod target;
mod top;

use haul_core::{Error, RelPath, Result};

pub use collect::Collector;
pub use histogram::Bucket;
pub use split::{Partition, Split};
pub use target::{Reason, Target};

/// The largest small file in bytes: its cost is mostly its name. As in `haul-probe`.
pub const SMALL: u64 = 1024 * 1024;

/// What is requested.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// How many of the largest, widest and deepest entries are listed.
    pub top: usize,
    /// The target that the names are checked for.
    pub target: Option<Target>,
    /// How the tree is split.
    pub split: Option<Split>,
}

/// Receives lists that may be longer than memory.
pub trait PlanOutput {
    /// The target cannot hold this entry under this name.
    fn unfit(&mut self, path: &RelPath);

    /// The entry belongs to partition `part`, counted from 0. Of directories, only empty ones are listed.
    ///
    /// # Errors
    /// That of storing the entry, which ends the planning.
    fn part(&mut self, part: usize, path: &RelPath) -> Result<()>;
}

/// Counts of a tree. The content of a hard-linked file counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Names of any kind, the root included.
    pub entries: u64,
    /// Files.
    pub files: u64,
    /// Bytes of content in them, holes included.
    pub bytes: u64,
    /// Directories, the root included.
    pub folders: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Pipes, sockets and devices.
    pub specials: u64,
    /// Entries that the filter rules exclude.
    pub excluded: u64,
    /// Entries that could not be read.
    pub errors: u64,
    /// Files with fewer blocks than their length takes.
    pub sparse_files: u64,
    /// Bytes in their holes, which need not be sent or stored.
    pub hole_bytes: u64,
    /// Files of at most [`SMALL`] bytes.
    pub small_files: u64,
    /// Bytes in them.
    pub small_bytes: u64,
}

impl Tally {
    /// Counts the content of one file.
    fn file(&mut self, len: u64, allocated: u64) {
        self.files += 1;
        self.bytes += len;
        if len <= SMALL {
            self.small_files += 1;
            self.small_bytes += len;
        }
        let data = data_len(len, allocated);
        if data < len {
            self.sparse_files += 1;
            self.hole_bytes += len - data;
        }
    }
}

/// An entry with a figure: the bytes of a file, the entries of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// The path.
    pub path: RelPath,
    /// The figure.
    pub figure: u64,
}

/// What is below a directory, at any depth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// The directory.
    pub path: RelPath,
    /// Bytes in files, without holes. A hard-linked file counts at its first name.
    pub bytes: u64,
    /// Entries.
    pub entries: u64,
}

/// Files with more than one name in the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HardLinks {
    /// Number of files.
    pub files: u64,
    /// Number of their names in the tree.
    pub names: u64,
    /// Additional bytes if each name became a separate file.
    pub saved_bytes: u64,
    /// Files with names outside of the tree, which a copy does not link.
    pub outside: u64,
    /// The files that save most, each by its first name.
    pub largest: Vec<Ranked>,
}

/// Names that do not fit the target for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// The reason.
    pub reason: Reason,
    /// Number of names.
    pub count: u64,
    /// The first names found.
    pub examples: Vec<RelPath>,
}

/// The analysis of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Counts.
    pub tally: Tally,
    /// Files by size in ascending order, without empty buckets at the ends.
    pub histogram: Vec<Bucket>,
    /// The largest files, by bytes.
    pub largest_files: Vec<Ranked>,
    /// The largest directories by the bytes below them, except the root.
    pub largest_folders: Vec<Folder>,
    /// The directories with the most entries directly in them.
    pub widest_folders: Vec<Ranked>,
    /// The directories furthest below the root, by depth.
    pub deepest_folders: Vec<Ranked>,
    /// The longest name, by bytes.
    pub longest_name: Option<Ranked>,
    /// The longest path below the root, by bytes.
    pub longest_path: Option<Ranked>,
    /// Files with several names.
    pub hard_links: HardLinks,
    /// What the target cannot hold, by reason, the most frequent first.
    pub unfit: Vec<Unfit>,
    /// The partitions, by number.
    pub parts: Vec<Partition>,
}

/// The bytes of a file without its holes. A small file counts in full: its content may be stored outside of blocks.
fn data_len(len: u64, allocated: u64) -> u64 {
    if len <= SMALL { len } else { len.min(allocated) }
}

/// The error of a spooled list.
fn list_failed(error: &std::io::Error) -> Error {
    Error::list("entries", error)
}
