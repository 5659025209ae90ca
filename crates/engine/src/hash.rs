//! Digests of everything in a source.

use haul_core::{Digest, RelPath, Report, Reporter, ScanOptions, Source};

use crate::Cancel;

/// One line of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashLine {
    /// The file, below the root; the root itself where the source is one file.
    pub path: RelPath,
    /// Its BLAKE3 digest.
    pub digest: Digest,
}

/// Hashes every file below the source's root. `line` gets each digest as it is known, in no particular order;
/// its error ends the run.
pub fn hash(
    _source: &dyn Source,
    _scan: &ScanOptions,
    _line: &mut dyn FnMut(HashLine) -> haul_core::Result<()>,
    _reporter: &dyn Reporter,
    _cancel: &Cancel,
) -> Report {
    Report::default()
}
