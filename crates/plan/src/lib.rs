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
mod directories;
mod errors;
mod histogram;
mod links;
mod order;
mod output;
mod plan;
mod ranked;
mod request;
pub mod split;
mod tally;
pub mod target;
mod top;

pub use collect::Collector;
pub use directories::DirectoryFigures;
pub use histogram::SizeBucket;
pub use links::LinkedFiles;
pub use output::PlanOutput;
pub use plan::{Plan, Unfit};
pub use ranked::RankedEntry;
pub use request::PlanOptions;
pub use split::{Partition, Split};
pub use tally::{SMALL, Tally};
pub use target::{Reason, Target};
