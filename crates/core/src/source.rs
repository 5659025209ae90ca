//! The contract of the reading end.

use std::fs::File;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::delta::PageHashes;
use crate::digest::Digest;
use crate::entry::Entry;
use crate::error::Result;
use crate::options::ScanOptions;
use crate::packing::Traffic;
use crate::path::RelPath;
use crate::report::{Failure, HungOperation};
use crate::slice::{Batch, BatchData};

/// A part of what a scan found.
#[derive(Clone, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct ScanBatch {
    /// Entries. A directory usually comes before what is in it, but with several visitors at once that is no
    /// promise: sinks make missing parents.
    pub entries: Vec<Entry>,
    /// What could not be looked at.
    pub errors: Vec<Failure>,
    /// How many entries the rules left out (what is below a directory that was left out is not counted).
    pub excluded: u64,
    /// Their paths, if they were asked for.
    pub left_out: Vec<RelPath>,
    /// The entries are as an earlier run saw them. Only of an end in this process.
    #[serde(skip)]
    pub told: bool,
}

impl ScanBatch {
    /// The rules leave out the entry at `path`.
    pub fn leaves_out(&mut self, options: &ScanOptions, path: &RelPath) {
        self.excluded += 1;
        if options.tells_left_out {
            self.left_out.push(path.clone());
        }
    }
}

/// Receives the parts of a scan, possibly from several threads at once. `Break` ends the scan.
pub type ScanVisit<'a> = &'a (dyn Fn(ScanBatch) -> ControlFlow<()> + Sync);

/// An end that data is read from. It may be used from many threads at once; calls block.
pub trait Source: Send + Sync {
    /// What the root itself is; `None` where there is nothing.
    ///
    /// # Errors
    /// If it cannot be looked at.
    fn root(&self) -> Result<Option<Entry>>;

    /// Visits the root itself and everything below it.
    ///
    /// # Errors
    /// If the scan as a whole cannot go on; what concerns one entry is in [`ScanBatch::errors`].
    fn scan(&self, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()>;

    /// The entries at `paths` as they are now, without following links: one answer for each, in order.
    ///
    /// # Errors
    /// If the end as a whole cannot answer.
    fn lookup(&self, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>>;

    /// Whether there is something at `paths`: one answer for each, in order. `false` is what was just found out; that
    /// something is there may be known from before.
    ///
    /// # Errors
    /// If the end as a whole cannot answer.
    fn holds(&self, paths: &[RelPath]) -> Result<Vec<Result<bool>>> {
        Ok(self.lookup(paths)?.into_iter().map(|found| found.map(|entry| entry.is_some())).collect())
    }

    /// Reads the slices of a batch and hashes them. A file that is no longer what its entry says
    /// ([`Entry::identity`]) fails with [`crate::ErrorKind::SourceChanged`], checked after its bytes were read.
    ///
    /// # Errors
    /// If the end as a whole cannot answer; what concerns one slice is in [`BatchData::slices`].
    fn read(&self, batch: &Arc<Batch>) -> Result<BatchData>;

    /// Does the same for a batch of one slice of a large file, of which the destination has told these pages: what is the
    /// same in them may be left out ([`crate::slice::Extent::same`]).
    ///
    /// # Errors
    /// As [`Source::read`].
    fn read_changed(&self, batch: &Arc<Batch>, _pages: &PageHashes) -> Result<BatchData> {
        self.read(batch)
    }

    /// Reads ahead what [`Source::read_changed`] will probably be asked for, until `stop` is set: for the time in which the
    /// other end is not there yet. What is found out is told by nothing but how soon the slices come.
    fn prehash(&self, _options: &ScanOptions, _stop: &AtomicBool) {}

    /// The digests of whole files, each as it is now.
    ///
    /// # Errors
    /// If the end as a whole cannot answer.
    fn digest(&self, paths: &[RelPath]) -> Result<Vec<Result<Digest>>>;

    /// What has been under way for so long, or longer, that the file system may never answer.
    fn hung(&self, _patience: Duration) -> Vec<HungOperation> {
        Vec::new()
    }

    /// Whether slices of large files may be read in parts ([`crate::Slice::part`]).
    fn has_parts(&self) -> bool {
        false
    }

    /// Nothing more will be read than what is being read. Said again and again until the end.
    fn ending(&self) {}

    /// Connections that are up; 0 for an end on this machine.
    fn streams(&self) -> u32 {
        0
    }

    /// What has come over connections so far; nothing for an end on this machine.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    /// The open file, where it lives on this machine: for copies that the file system does by itself.
    fn local_file(&self, _entry: &Entry) -> Option<Result<File>> {
        None
    }
}
