//! The result of an analysis.

use haul_core::RelPath;

use crate::directories::DirectoryFigures;
use crate::histogram::SizeBucket;
use crate::links::LinkedFiles;
use crate::ranked::RankedEntry;
use crate::split::Partition;
use crate::tally::Tally;
use crate::target::Reason;

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
    pub histogram: Vec<SizeBucket>,
    /// The largest files, by bytes.
    pub largest_files: Vec<RankedEntry>,
    /// The largest directories by the bytes below them, except the root.
    pub largest_directories: Vec<DirectoryFigures>,
    /// The directories with the most entries directly in them.
    pub widest_directories: Vec<RankedEntry>,
    /// The directories furthest below the root, by depth.
    pub deepest_directories: Vec<RankedEntry>,
    /// The longest name, by bytes.
    pub longest_name: Option<RankedEntry>,
    /// The longest path below the root, by bytes.
    pub longest_path: Option<RankedEntry>,
    /// Files with several names.
    pub hard_links: LinkedFiles,
    /// The entries that the target cannot hold, by reason, the most frequent reason first.
    pub unfit: Vec<Unfit>,
    /// The partitions, by number.
    pub parts: Vec<Partition>,
}
