//! How a caller describes a copy.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use haul_core::{BackupNames, Links, Pace, RelPath, Result, ScanOptions, Sink, Source};

use crate::changes::MetadataChanges;
use crate::confirmed::ConfirmedEntries;
use crate::trust::Trust;

/// One source and its destination.
pub struct EndPair {
    /// The end to read from.
    pub source: Arc<dyn Source>,
    /// The end to write to.
    pub sink: Arc<dyn Sink>,
    /// The same destination as `sink`, opened for a dry run. Entries that come from an index are compared through it.
    pub preview: Option<Arc<dyn Sink>>,
    /// The same destination as `sink`, opened for reading. Deletion lists it.
    pub view: Option<Arc<dyn Source>>,
    /// Other sources with the same destination, in their order.
    pub other_sources: Vec<OtherSource>,
}

/// Another source with the same destination.
pub struct OtherSource {
    /// The source.
    pub source: Arc<dyn Source>,
    /// The paths that are copied from it; `None`: all.
    pub selection: Option<Arc<PathSelection>>,
    /// Whether it comes before the source of this part.
    pub is_earlier: bool,
}

/// Paths of a source that are copied with the entries below them, and the directories above them.
#[derive(Debug, Default)]
pub struct PathSelection {
    paths: HashSet<RelPath>,
    above: HashSet<RelPath>,
}

impl PathSelection {
    /// The selection of these paths.
    #[must_use]
    pub fn new(paths: &[RelPath]) -> Self {
        let mut above = HashSet::new();
        for path in paths {
            let mut at = path.parent();
            while let Some(dir) = at.filter(|dir| !above.contains(dir)) {
                at = dir.parent();
                above.insert(dir);
            }
        }
        Self { paths: paths.iter().cloned().collect(), above }
    }

    /// Whether the entry at `path` is copied.
    pub(crate) fn has(&self, path: &RelPath) -> bool {
        if self.above.contains(path) {
            return true;
        }
        let mut at = Some(path.clone());
        while let Some(path) = at {
            if self.paths.contains(&path) {
                return true;
            }
            at = path.parent();
        }
        false
    }
}

/// How `sync` deletes extraneous entries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delete {
    /// Delete nothing if there are more extraneous entries than this.
    pub max: Option<u64>,
    /// Delete even if the scan of the source had errors.
    pub ignore_errors: bool,
    /// Delete even if the source is empty, or if more than half of the destination is extraneous. `max` implies this.
    pub force: bool,
}

/// The paths of a list, read one at a time; an invalid one is an error in its place.
pub type Paths = Box<dyn Iterator<Item = Result<RelPath>> + Send>;

/// The action when the destination is full or over quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFull {
    /// End the run.
    #[default]
    Fail,
    /// Wait for space, at most this long each time. Then end the run.
    Pause(Duration),
}

/// How entries are copied that another program has open ([`haul_core::ErrorKind::Locked`]): once more at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockedRetries {
    /// How often.
    pub times: u32,
    /// The pause before each time.
    pub wait: Duration,
}

/// How to copy.
#[derive(Default)]
pub struct CopyOptions {
    /// Which entries to scan.
    pub scan: ScanOptions,
    /// How the source was told to treat symbolic links.
    pub links: Links,
    /// Scan only these paths and the entries below them. The list is read while the run goes on. The root keeps its
    /// metadata at the destination, unless the list has it.
    pub files_from: Option<Paths>,
    /// Compare by digest: the source hashes the files that may be unchanged. The sinks must have been opened with
    /// [`haul_core::Compare::Checksum`].
    pub checksum: bool,
    /// Report the digest of each file that the destination has after the copy, and report up-to-date files too. Requires
    /// `checksum`.
    pub digests: bool,
    /// Do not read files that the file system cloned. `digests` reads them all the same.
    pub trusts_clones: bool,
    /// Collect the entries that the destination has after the copy, so that [`crate::remove_sources`] can remove them at
    /// the source. `checksum` must be set.
    pub confirmed: Option<Arc<ConfirmedEntries>>,
    /// Report the actions of a run, and change nothing. The sinks must have been opened with the same option.
    pub dry_run: bool,
    /// Delete extraneous entries after the copy.
    pub delete: Option<Delete>,
    /// Compare a large file with the file that it replaces and send only the differences, where the sink supports it
    /// ([`haul_core::SinkOptions::delta`]).
    pub delta: bool,
    /// Write into existing large files instead of replacing them. The sinks must have been opened with the same option.
    pub in_place: bool,
    /// Which entries and attributes to accept from the source.
    pub trust: Trust,
    /// Changes of modes, owners and groups.
    pub changes: MetadataChanges,
    /// The names at the destination that belong to backups.
    pub backups: Option<BackupNames>,
    /// Skip entries that exist at the destination. The sinks must have been opened with the same option.
    pub ignore_existing: bool,
    /// The action when the destination is full.
    pub on_full: OnFull,
    /// How entries are copied that another program has open.
    pub locked: LockedRetries,
    /// No other source is copied: if the root of this one cannot be created, the run ends.
    pub is_only: bool,
    /// Warn about a file system that does not answer for this long.
    pub timeout: Duration,
    /// The rate limit.
    pub pace: Pace,
    /// The engine keeps the rate limit, as the content goes over no connection that does.
    pub keeps_rate: bool,
    /// The number of batches in flight; 0 lets the engine choose.
    pub workers: usize,
}
