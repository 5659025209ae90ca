//! A source as a job reads it: its content delayed to keep a rate limit, if no connection with a remote haul does that, or
//! its root left out of the scan.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use haul_core::filter::Above;
use haul_core::source::ScanVisit;
use haul_core::{
    Batch, BatchData, Digest, Entry, HungOperation, Limiter, PageHashes, PageReport, RelPath, Result, Said,
    ScanBatch, ScanOptions, Sha256, Source, SourceCaps, Traffic,
};
use haul_engine::Cancel;

/// A source with what a job adds to it.
pub(crate) struct JobSource {
    source: Arc<dyn Source>,
    /// The rate limit, and what ends its delays.
    limit: Option<(Arc<Limiter>, Cancel)>,
    /// The root is scanned only if it is requested by name: listed paths go to a directory that keeps its own times and
    /// mode.
    omits_root: bool,
}

impl JobSource {
    /// A source whose content is delayed.
    pub(crate) fn limited(source: Arc<dyn Source>, limit: &Arc<Limiter>, cancel: &Cancel) -> Arc<dyn Source> {
        Arc::new(Self { source, limit: Some((Arc::clone(limit), cancel.clone())), omits_root: false })
    }

    /// A source whose root is not copied.
    pub(crate) fn rootless(source: Arc<dyn Source>) -> Arc<dyn Source> {
        Arc::new(Self { source, limit: None, omits_root: true })
    }

    /// Waits until the limit allows this much content.
    fn pass(&self, data: BatchData) -> BatchData {
        if let Some((limit, cancel)) = &self.limit {
            let mut left = data.content.bytes().len();
            while left > 0 {
                // After an interruption, content that was already read passes: the run ends when it is written.
                left -= limit.take(left, &|| cancel.is_cancelled()).unwrap_or(left);
            }
        }
        data
    }
}

#[deny(clippy::missing_trait_methods, reason = "a method that is not forwarded would change the source")]
impl Source for JobSource {
    fn caps(&self) -> SourceCaps {
        self.source.caps()
    }

    fn root(&self) -> Result<Option<Entry>> {
        self.source.root()
    }

    fn scan(&self, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
        if !self.omits_root || options.starts.iter().any(RelPath::is_root) {
            return self.source.scan(options, visit);
        }
        self.source.scan(options, &|mut batch: ScanBatch| {
            batch.entries.retain(|entry| !entry.path.is_root());
            visit(batch)
        })
    }

    fn lookup(&self, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
        self.source.lookup(paths)
    }

    fn holds(&self, paths: &[RelPath]) -> Result<Vec<Result<bool>>> {
        self.source.holds(paths)
    }

    fn above(&self, names: &[Vec<u8>]) -> Result<Above> {
        self.source.above(names)
    }

    fn read(&self, batch: &Arc<Batch>) -> Result<BatchData> {
        self.source.read(batch).map(|data| self.pass(data))
    }

    fn read_changed(&self, batch: &Arc<Batch>, pages: &PageHashes) -> Result<BatchData> {
        self.source.read_changed(batch, pages).map(|data| self.pass(data))
    }

    fn prehash(&self, options: &ScanOptions, stop: &AtomicBool) {
        self.source.prehash(options, stop);
    }

    fn digest(&self, paths: &[RelPath]) -> Result<Vec<Result<Digest>>> {
        self.source.digest(paths)
    }

    fn sha256(&self, paths: &[RelPath]) -> Result<Vec<Result<Sha256>>> {
        self.source.sha256(paths)
    }

    fn remove_unchanged(&self, entries: &[Entry]) -> Result<Vec<Result<()>>> {
        self.source.remove_unchanged(entries)
    }

    fn stop(&self) {
        self.source.stop();
    }

    fn said(&self, from: u64) -> Result<Said> {
        self.source.said(from)
    }

    fn page_report(&self) -> Result<Option<PageReport>> {
        self.source.page_report()
    }

    fn hung(&self, timeout: Duration) -> Vec<HungOperation> {
        self.source.hung(timeout)
    }

    fn is_held_by_iops(&self) -> bool {
        self.source.is_held_by_iops()
    }

    fn ending(&self) {
        self.source.ending();
    }

    fn streams(&self) -> u32 {
        self.source.streams()
    }

    fn traffic(&self) -> Traffic {
        self.source.traffic()
    }

    fn local_file(&self, entry: &Entry) -> Option<Result<File>> {
        self.source.local_file(entry)
    }
}
