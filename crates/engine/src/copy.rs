//! Copying trees.

use std::sync::Arc;

use haul_core::{RelPath, Report, Reporter, ScanOptions, Sink, Source};

use crate::Cancel;

/// One source with the place that it goes to.
pub struct Part {
    /// Where data is read from.
    pub source: Arc<dyn Source>,
    /// Where it is written to.
    pub sink: Arc<dyn Sink>,
    /// The same place as `sink`, to be looked at: what is there is listed through it for deletion.
    pub view: Option<Arc<dyn Source>>,
}

/// How `sync` removes what the source does not have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delete {
    /// Remove nothing if more entries than this would have to go.
    pub max: Option<u64>,
    /// Remove although the scan of the source had errors.
    pub ignore_errors: bool,
}

/// How a copy is made.
pub struct CopyOptions {
    /// What is looked at.
    pub scan: ScanOptions,
    /// Only these paths and what is below them, instead of the whole source; read as the run goes on.
    pub files_from: Option<Box<dyn Iterator<Item = Result<RelPath, haul_core::Error>> + Send>>,
    /// Compare by digest: the source hashes files of equal size first.
    pub checksum: bool,
    /// Say what would be done, change nothing. The sinks must have been opened with the same.
    pub dry_run: bool,
    /// Remove what the source does not have, after the copy.
    pub delete: Option<Delete>,
    /// Batches in work at once; 0 lets the engine choose.
    pub workers: usize,
    /// Budget for content in bytes, the same as of the buffer pools of the ends on this machine.
    pub max_memory: u64,
}

/// Copies each part in turn and reports on all of them together.
pub fn copy(_parts: &[Part], _options: CopyOptions, _reporter: &dyn Reporter, _cancel: &Cancel) -> Report {
    Report::default()
}
