//! The contract of the end that is read.

use std::fs::File;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::caps::SourceCaps;
use crate::delta::PageHashes;
use crate::digest::{Digest, Sha256};
use crate::entry::Entry;
use crate::error::{Error, ErrorKind, Result, Side};
use crate::filter::{DirRules, Filter, RulesAbove};
use crate::options::ScanOptions;
use crate::packing::Traffic;
use crate::page_checks::PageReport;
use crate::path::RelPath;
use crate::program::Said;
use crate::report::{Failure, HungOperation};
use crate::sink::ArrivingContent;
use crate::slice::{Batch, BatchData, SliceData};

/// The operation of errors of [`Source::remove_unchanged`].
pub const REMOVE: &str = "remove";

/// The cause of an error of a symbolic link that is to be followed and leads to nothing.
pub const DANGLING: &str = "it is a symbolic link to something that does not exist";

/// The cause of an error of a directory that links lead back to.
pub const OWN_ANCESTOR: &str =
    "symbolic links lead back to a directory above it, so copying it would never end";

/// The error of a source that reads nothing above its root.
#[must_use]
pub fn nothing_above() -> Error {
    let cause = "files of rules above the root cannot be read there, nor are absolute paths known";
    Error::new(ErrorKind::Unsupported, Side::Source, "read the filter rules", cause)
}

/// The error of a removal by a source that follows links.
#[must_use]
pub fn removes_no_targets() -> Error {
    let cause = "links are followed, and their targets are not removed";
    Error::new(ErrorKind::Unsupported, Side::Source, REMOVE, cause)
}

/// The error of an entry that is not the one that was copied, and therefore is not removed.
#[must_use]
pub fn changed_since_copied() -> Error {
    let cause = "it changed after it was copied, so it stays";
    Error::new(ErrorKind::SourceChanged, Side::Source, REMOVE, cause)
}

/// Some of the results of a scan.
#[derive(Clone, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct ScanBatch {
    /// Entries. A directory usually comes before its contents, but several threads of a scan may visit at once, so
    /// there is no guarantee; sinks create missing parents.
    pub entries: Vec<Entry>,
    /// Entries that could not be examined.
    pub errors: Vec<Failure>,
    /// How many entries the rules excluded. Entries below an excluded directory are not counted.
    pub excluded: u64,
    /// The excluded entries, if [`ScanOptions::tells_left_out`] is set.
    pub left_out: Vec<LeftOut>,
    /// The entries that the scan expects after this batch, as an estimate; `None` if the source cannot tell.
    pub expected: Option<u64>,
    /// The entries come from an index that an earlier run saved. Only set by a source in this process.
    #[serde(skip)]
    pub told: bool,
}

/// An entry that the rules exclude.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LeftOut {
    /// Its path.
    pub path: RelPath,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Whether a perishable rule alone excludes it.
    pub perishable: bool,
}

impl ScanBatch {
    /// Records that an entry is excluded, if it is: by its size or age, or by the rules of the directory that it is in.
    pub fn excludes(
        &mut self,
        options: &ScanOptions,
        filter: &Filter<'_>,
        dir: &DirRules,
        entry: &Entry,
    ) -> bool {
        if options.is_wrong_size_or_age(entry) {
            self.leaves_out(options, &entry.path, entry.is_dir());
            return true;
        }
        self.excludes_path(options, filter, dir, &entry.path, entry.is_dir())
    }

    /// If the rules of the directory exclude the entry at `path`, records that and returns `true`.
    pub fn excludes_path(
        &mut self,
        options: &ScanOptions,
        filter: &Filter<'_>,
        dir: &DirRules,
        path: &RelPath,
        is_dir: bool,
    ) -> bool {
        let Some(excluded) = filter.excludes(dir, path, is_dir) else { return false };
        self.leaves_out(options, path, is_dir);
        if let Some(last) = self.left_out.last_mut().filter(|_| options.tells_left_out) {
            last.perishable = excluded.perishable;
        }
        true
    }

    /// Records that the entry at `path` is excluded.
    pub fn leaves_out(&mut self, options: &ScanOptions, path: &RelPath, is_dir: bool) {
        self.excluded += 1;
        if options.tells_left_out {
            self.left_out.push(LeftOut { path: path.clone(), is_dir, perishable: false });
        }
    }
}

/// Receives the results of a scan, possibly from several threads at once. `Break` ends the scan.
pub type ScanVisit<'a> = &'a (dyn Fn(ScanBatch) -> ControlFlow<()> + Sync);

/// Takes content that is still arriving, of a batch whose slices are known. Returns whether it took it: all, or none.
///
/// It fails if the content does not arrive.
pub type TakeArriving<'a> =
    dyn FnMut(&Arc<Batch>, &[Result<SliceData>], &mut dyn ArrivingContent) -> Result<bool> + 'a;

/// An end that data is read from. Any number of threads may call it at once; calls block.
///
/// Its promises are the cases of `haul_testkit::conformance`, which every source runs.
pub trait Source: Send + Sync {
    /// The capabilities of this source beyond the operations that every source has. They do not change during a run.
    fn caps(&self) -> SourceCaps;

    /// The entry at the root; `None` if there is none.
    ///
    /// # Errors
    /// If the root cannot be examined.
    fn root(&self) -> Result<Option<Entry>>;

    /// Visits the root itself and everything below it.
    ///
    /// # Errors
    /// If the whole scan cannot continue. Errors of single entries are in [`ScanBatch::errors`], also
    /// [`crate::ErrorKind::NotFound`] for a start that does not exist.
    fn scan(&self, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()>;

    /// The current entries at `paths`, without following symbolic links unless the source was opened so: one result for
    /// each path, in order. `Ok(None)` means that there is no such entry.
    ///
    /// # Errors
    /// If the whole call fails.
    fn lookup(&self, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>>;

    /// Whether entries exist at `paths`: one result for each path, in order. `false` is always current; `true` may come
    /// from an earlier lookup.
    ///
    /// # Errors
    /// If the whole call fails.
    fn holds(&self, paths: &[RelPath]) -> Result<Vec<Result<bool>>> {
        Ok(self.lookup(paths)?.into_iter().map(|found| found.map(|entry| entry.is_some())).collect())
    }

    /// The absolute path of the root, and the files with these names in the directories above it, from the top down.
    /// [`Filter::open`] asks for them; a scan does so itself.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if nothing above the root can be read; else if the whole call fails.
    fn above(&self, _names: &[Vec<u8>]) -> Result<RulesAbove> {
        Err(nothing_above())
    }

    /// Reads the slices of a batch and hashes them. After the bytes of a slice are read, the source compares the file
    /// with [`Entry::identity`] of its entry; if they differ, the slice fails with
    /// [`crate::ErrorKind::SourceChanged`]. A file that no longer exists fails with that or with
    /// [`crate::ErrorKind::NotFound`].
    ///
    /// With [`SourceCaps::growing`], single slices of a stream ([`Entry::stream`]) are read before its length is known.
    /// The call waits until the slice is complete. If the stream ends in the slice or before it, the entry in
    /// [`BatchData::batch`] has the true length, and the slice has only the content before that end. The source was
    /// told how many slices to keep: it drops a slice once a slice is read that is further on by that number.
    ///
    /// # Errors
    /// If the whole call fails. Errors of single slices are in [`BatchData::slices`].
    fn read(&self, batch: &Arc<Batch>) -> Result<BatchData>;

    /// As [`Source::read`], but a source that reads over a connection, or a large file of this machine, passes the content to
    /// `take` while it arrives or is read. If `take` takes it, the result is `None`. If a connection is lost, `take` is called
    /// again with the content of the next one.
    ///
    /// # Errors
    /// As [`Source::read`].
    fn read_arriving(&self, batch: &Arc<Batch>, _take: &mut TakeArriving<'_>) -> Result<Option<BatchData>> {
        self.read(batch).map(Some)
    }

    /// Reads a batch of one slice of a large file, given the hashes of the pages that the destination has. A source
    /// with [`SourceCaps::delta`] omits content that the destination has already ([`crate::slice::Extent::same`]).
    ///
    /// # Errors
    /// As [`Source::read`].
    fn read_changed(&self, batch: &Arc<Batch>, _pages: &PageHashes) -> Result<BatchData> {
        self.read(batch)
    }

    /// With [`SourceCaps::prehash`]: hashes the files that [`Source::read_changed`] will probably read, until `stop` is
    /// set. It uses the time until the destination is connected; its results only make later reads faster.
    fn prehash(&self, _options: &ScanOptions, _stop: &AtomicBool) {}

    /// The current digests of whole files: one result for each path, in order.
    ///
    /// # Errors
    /// If the whole call fails.
    fn digest(&self, paths: &[RelPath]) -> Result<Vec<Result<Digest>>>;

    /// As [`Source::digest`], and the SHA-256 of the same bytes.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Unsupported`] if this source computes none; else if the whole call fails.
    fn sha256(&self, _paths: &[RelPath]) -> Result<Vec<Result<Sha256>>> {
        Err(Error::new(ErrorKind::Unsupported, Side::Source, "hash", "it computes no SHA-256"))
    }

    /// The bytes of content that calls of [`Source::digest`] and [`Source::sha256`] have hashed so far, also those of
    /// files that are not complete; `None` if the source does not count them. A remote end may tell it late.
    fn hashed(&self) -> Option<u64> {
        None
    }

    /// With [`SourceCaps::removes`]: removes each entry that is not a directory and still is the one given: kind and
    /// [`Entry::identity`] are equal, but for a change time that this source set itself by removing another name of the
    /// file. One result for each entry, in order. A missing entry counts as removed; a changed one stays
    /// ([`crate::ErrorKind::SourceChanged`]). An empty list removes nothing and asks for permission alone.
    ///
    /// # Errors
    /// [`crate::ErrorKind::PermissionDenied`] if this source may remove nothing, [`crate::ErrorKind::Unsupported`] if it
    /// cannot; else if the whole call fails.
    fn remove_unchanged(&self, _entries: &[Entry]) -> Result<Vec<Result<()>>> {
        let cause = "files cannot be removed there";
        Err(Error::new(ErrorKind::Unsupported, Side::Source, REMOVE, cause))
    }

    /// The results of the checks of database pages so far; `None` if the source checks none
    /// ([`crate::SourceOptions::pages`]).
    ///
    /// # Errors
    /// If the source cannot be asked.
    fn page_report(&self) -> Result<Option<PageReport>> {
        Ok(None)
    }

    /// Operations that have been in flight for at least `timeout`: the file system may never answer them.
    fn hung(&self, _timeout: Duration) -> Vec<HungOperation> {
        Vec::new()
    }

    /// Whether operations wait because of the limit on operations per second.
    fn is_held_by_iops(&self) -> bool {
        false
    }

    /// No reads will follow those in flight. Called repeatedly until the run ends.
    fn ending(&self) {}

    /// Ends the program that the source reads from, if there is one, and waits for its end: reads in flight fail.
    fn stop(&self) {}

    /// The text that the program of the source has written to its standard error, from this offset on. Waits a moment
    /// if there is none. The source drops the text before the offset.
    ///
    /// # Errors
    /// If the source cannot be asked.
    fn said(&self, _from: u64) -> Result<Said> {
        Ok(Said::nothing())
    }

    /// The number of open connections; 0 for an end on this machine.
    fn streams(&self) -> u32 {
        0
    }

    /// The bytes received over connections so far; zeros for an end on this machine.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    /// With [`SourceCaps::local_files`]: the open file, for a copy that shares blocks (reflink).
    fn local_file(&self, _entry: &Entry) -> Option<Result<File>> {
        None
    }
}
