//! A source whose content is delayed to keep a rate limit, for content that goes over no connection with a remote haul.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use haul_core::filter::Above;
use haul_core::source::ScanVisit;
use haul_core::{
    Batch, BatchData, Digest, Entry, HungOperation, Limiter, PageHashes, RelPath, Result, ScanOptions,
    Sha256, Source, SourceCaps, Traffic,
};
use haul_engine::Cancel;

/// A source with a rate limit.
pub(crate) struct RateLimited {
    /// The source.
    pub(crate) source: Arc<dyn Source>,
    /// The limit.
    pub(crate) limit: Arc<Limiter>,
    /// Ends the delay.
    pub(crate) cancel: Cancel,
}

impl RateLimited {
    /// Waits until the limit allows this much content.
    fn pass(&self, data: &BatchData) {
        let mut left = data.content.bytes().len();
        while left > 0 {
            // After an interruption, content that was already read passes: the run ends when it is written.
            left -= self.limit.take(left, &|| self.cancel.is_cancelled()).unwrap_or(left);
        }
    }
}

#[deny(clippy::missing_trait_methods, reason = "a method that is not forwarded would change the source")]
impl Source for RateLimited {
    fn caps(&self) -> SourceCaps {
        self.source.caps()
    }

    fn root(&self) -> Result<Option<Entry>> {
        self.source.root()
    }

    fn scan(&self, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
        self.source.scan(options, visit)
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
        let data = self.source.read(batch)?;
        self.pass(&data);
        Ok(data)
    }

    fn read_changed(&self, batch: &Arc<Batch>, pages: &PageHashes) -> Result<BatchData> {
        let data = self.source.read_changed(batch, pages)?;
        self.pass(&data);
        Ok(data)
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
