//! An entry in a list of the largest.

use haul_core::RelPath;

/// An entry with a figure: the bytes of a file, the entries of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankedEntry {
    /// The path.
    pub path: RelPath,
    /// The figure.
    pub figure: u64,
}
