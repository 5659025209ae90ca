//! A source whose root is not copied: listed paths go to a directory that keeps its own times and mode.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use haul_core::filter::Above;
use haul_core::source::ScanVisit;
use haul_core::{
    Batch, BatchData, Digest, Entry, HungOperation, PageHashes, RelPath, Result, ScanBatch, ScanOptions,
    Sha256, Source, SourceCaps, Traffic,
};

/// A source whose scan omits the root, unless the root is requested by name.
pub(crate) struct Rootless(pub(crate) Arc<dyn Source>);

#[deny(clippy::missing_trait_methods, reason = "a method that is not forwarded would change the source")]
impl Source for Rootless {
    fn caps(&self) -> SourceCaps {
        self.0.caps()
    }

    fn root(&self) -> Result<Option<Entry>> {
        self.0.root()
    }

    fn scan(&self, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
        if options.starts.iter().any(RelPath::is_root) {
            return self.0.scan(options, visit);
        }
        self.0.scan(options, &|mut batch: ScanBatch| {
            batch.entries.retain(|entry| !entry.path.is_root());
            visit(batch)
        })
    }

    fn lookup(&self, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
        self.0.lookup(paths)
    }

    fn holds(&self, paths: &[RelPath]) -> Result<Vec<Result<bool>>> {
        self.0.holds(paths)
    }

    fn above(&self, names: &[Vec<u8>]) -> Result<Above> {
        self.0.above(names)
    }

    fn read(&self, batch: &Arc<Batch>) -> Result<BatchData> {
        self.0.read(batch)
    }

    fn read_changed(&self, batch: &Arc<Batch>, pages: &PageHashes) -> Result<BatchData> {
        self.0.read_changed(batch, pages)
    }

    fn prehash(&self, options: &ScanOptions, stop: &AtomicBool) {
        self.0.prehash(options, stop);
    }

    fn digest(&self, paths: &[RelPath]) -> Result<Vec<Result<Digest>>> {
        self.0.digest(paths)
    }

    fn sha256(&self, paths: &[RelPath]) -> Result<Vec<Result<Sha256>>> {
        self.0.sha256(paths)
    }

    fn remove_unchanged(&self, entries: &[Entry]) -> Result<Vec<Result<()>>> {
        self.0.remove_unchanged(entries)
    }

    fn hung(&self, timeout: Duration) -> Vec<HungOperation> {
        self.0.hung(timeout)
    }

    fn is_held_by_iops(&self) -> bool {
        self.0.is_held_by_iops()
    }

    fn ending(&self) {
        self.0.ending();
    }

    fn streams(&self) -> u32 {
        self.0.streams()
    }

    fn traffic(&self) -> Traffic {
        self.0.traffic()
    }

    fn local_file(&self, entry: &Entry) -> Option<Result<File>> {
        self.0.local_file(entry)
    }
}
