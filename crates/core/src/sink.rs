//! The contract of the end that is written to.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::caps::SinkCaps;
use crate::changes::Changes;
use crate::delta::PageHashes;
use crate::digest::{ChainingValue, Digest};
use crate::entry::Entry;
use crate::error::Result;
use crate::packing::Traffic;
use crate::page_checks::PageReport;
use crate::path::RelPath;
use crate::program::Said;
use crate::report::{HungOperation, MetaNote};
use crate::slice::{Batch, BatchData, SliceData};

/// An entry of the source, offered before its content is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The entry.
    pub entry: Arc<Entry>,
    /// The digest of the file, if [`crate::Compare::Checksum`] is set.
    pub digest: Option<Digest>,
}

/// Why an entry is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SkipReason {
    /// It exists, and `--ignore-existing` was given.
    Exists,
    /// It does not exist, and `--existing` was given.
    Missing,
    /// It is newer, and `--update` was given.
    Newer,
    /// An earlier copy has it, and `--compare-dest` was given.
    Elsewhere,
    /// The destination cannot store this kind of entry; [`Sink::finish`] reports it.
    Unsupported,
}

/// The answer of a sink to an offer. [`Changes::NEW`] is always told; other changes only with [`SinkOptions::itemize`].
///
/// [`SinkOptions::itemize`]: crate::SinkOptions::itemize
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The destination is up to date: content and metadata.
    Same,
    /// Only the metadata differed, and has been set.
    Updated(Changes),
    /// The entry has been created, or has replaced another kind of entry (directories, symbolic links, special files).
    Made(Changes),
    /// The content has to be sent.
    Need {
        /// [`Changes::NEW`], or how the entry that it replaces differs.
        changes: Changes,
        /// Slices that an interrupted run has stored, verified and durable.
        have: Vec<Range<u32>>,
    },
    /// An option excludes the entry.
    Left(SkipReason),
}

/// Another name of a file that the destination has (hard link).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardLink {
    /// The entry of the new name.
    pub entry: Arc<Entry>,
    /// The existing name of the file.
    pub to: RelPath,
}

/// The outcome of one slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The slice is written, verified and durable; other slices of the file are missing.
    Stored,
    /// The whole file has been renamed into place. The digest is that of the file; a clone that was not read has
    /// none.
    Committed(Option<Digest>),
}

/// Called exactly once for each write, from any thread, with one outcome for each slice, in order.
pub type WriteDone = Box<dyn FnOnce(Vec<Result<Outcome>>) + Send>;

/// Called with the length of each piece of a clone that was read, from several threads. Returns whether to go on.
pub type CloneRead<'a> = dyn Fn(u64) -> bool + Sync + 'a;

/// Content that is still arriving, over a connection or from a file.
pub trait ArrivingContent {
    /// The next bytes, in order; none at the end.
    ///
    /// # Errors
    /// If the connection is lost, or the file cannot be read.
    fn next(&mut self) -> Result<&[u8]>;

    /// The proof of the only slice if it follows the content; `None` if the slice came with its proof. To be called once
    /// all content was taken.
    ///
    /// # Errors
    /// As [`ArrivingContent::next`], and `SourceChanged` if the file changed while it was read.
    fn proof(&mut self) -> Result<Option<ChainingValue>> {
        Ok(None)
    }

    /// Whether the content comes from a file that this process reads, and hashes on the way.
    fn is_at_hand(&self) -> bool {
        false
    }
}

/// The results that a sink reports at the end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct FinishReport {
    /// Metadata that could not be set: one note for each kind and cause.
    pub notes: Vec<MetaNote>,
}

/// An end that data is written to. Any number of threads may call it at once; calls block.
///
/// Every call is idempotent: the engine repeats it with the same arguments after an error that allows a retry. The
/// promises of a sink are the cases of `haul_testkit::conformance`, which every sink runs.
pub trait Sink: Send + Sync {
    /// The capabilities of this sink beyond the operations that every sink has. They do not change during a run.
    fn caps(&self) -> SinkCaps;

    /// Compares entries with the destination, creates entries without content (directories, symbolic links, special
    /// files), and answers which content it needs: one answer for each offer, in order. [`crate::policy::decide`] has
    /// the rules.
    ///
    /// # Errors
    /// If the whole call fails.
    fn offer(&self, offers: &[Offer]) -> Result<Vec<Result<Answer>>>;

    /// Accepts the content of a batch: verifies each slice against its proof, stages it, and commits each file that is
    /// complete. Returns once the content is accepted; `done` is called when it is durable. A slice that could not be
    /// read is answered with the error of its read.
    ///
    /// With [`SinkCaps::growing`], whole slices of a stream ([`Entry::stream`]) may be written before its length is
    /// known, in any order. The sink neither allocates nor commits anything for a length that it does not know. The last
    /// slice is written with the true length once all others are stored: from then on the file is one like any other.
    ///
    /// A slice of a stream whose only extent is [`crate::slice::Extent::same`] asks whether the sink has it from an
    /// interrupted run. If the staged slice proves to have the content, it counts as written, else the answer is
    /// [`crate::ErrorKind::Corrupt`] and the slice is written with its content.
    fn write(&self, data: BatchData, done: WriteDone);

    /// As [`Sink::write`], for content that is still arriving: the sink stages it piece by piece and verifies it at the
    /// end. Content that does not verify does not count, and is staged anew when it is sent again. The sink takes `done`
    /// when all content has arrived; one that passes the content on over a connection takes it before, and calls it with the
    /// error of a connection that is lost. If it leaves `done`, it does not do that for this batch and has taken no content:
    /// the caller collects the content and writes it.
    ///
    /// # Errors
    /// If the content does not arrive. The sink leaves `done` then, too, unless it has called it.
    fn write_arriving(
        &self,
        _batch: &Arc<Batch>,
        _slices: &[Result<SliceData>],
        _content: &mut dyn ArrivingContent,
        _done: &mut Option<WriteDone>,
    ) -> Result<()> {
        Ok(())
    }

    /// With [`SinkCaps::fetches`]: as [`Sink::write`], but the sink fetches the content from the source itself, so that
    /// it does not pass through this process. If it cannot do that now, it returns `done`, and the caller reads and
    /// writes the batch.
    fn fetch(&self, _batch: &Arc<Batch>, done: WriteDone) -> Option<WriteDone> {
        Some(done)
    }

    /// With [`SinkCaps::delta`]: the page hashes of these slices of the file that the destination has under the name of
    /// `entry`. Fewer than asked for if the file is shorter; none if there is no such file, or if comparing has not
    /// saved traffic so far.
    ///
    /// # Errors
    /// If the whole call fails.
    fn pages(&self, _entry: &Arc<Entry>, _slices: Range<u32>) -> Result<Vec<PageHashes>> {
        Ok(Vec::new())
    }

    /// Makes the accepted content durable and commits it now, without waiting for more: no writes will follow those in
    /// flight. Called repeatedly until the run ends.
    fn flush(&self);

    /// The results of the page checks that the end of the source made of the database files that this sink fetched from
    /// it ([`Sink::fetch`]), as [`crate::Source::page_report`].
    ///
    /// # Errors
    /// If it cannot be asked.
    fn page_report(&self) -> Result<Option<PageReport>> {
        Ok(None)
    }

    /// Operations that have been in flight for at least `timeout`: the file system may never answer them.
    fn hung(&self, _timeout: Duration) -> Vec<HungOperation> {
        Vec::new()
    }

    /// As [`crate::Source::said`], for the program that reads the content that is written here.
    ///
    /// # Errors
    /// If the sink cannot be asked; when all was said, why the program has failed.
    fn said(&self, _from: u64) -> Result<Said> {
        Ok(Said::nothing())
    }

    /// Whether operations wait because of the limit on operations per second.
    fn is_held_by_iops(&self) -> bool {
        false
    }

    /// Deletes the staged slices of files that will not be completed.
    ///
    /// # Errors
    /// If the whole call fails.
    fn discard(&self, paths: &[RelPath]) -> Result<()>;

    /// Creates hard links to files that the destination has.
    ///
    /// # Errors
    /// If the whole call fails. A single link fails with [`crate::ErrorKind::NotFound`] if its target does not exist.
    fn link(&self, links: &[HardLink]) -> Result<Vec<Result<Answer>>>;

    /// Removes entries: files, symbolic links, empty directories. A missing entry counts as removed. Not removed are a
    /// directory that is not empty ([`crate::ErrorKind::NotEmpty`]) and, on a file system that ignores case, a name
    /// that differs only in case from an entry of this run ([`crate::ErrorKind::InUse`]). A dry run answers as a real
    /// run would.
    ///
    /// # Errors
    /// If the whole call fails.
    fn remove(&self, paths: &[RelPath]) -> Result<Vec<Result<()>>>;

    /// Sets the times and modes of directories, syncs everything, and reports. No writes may follow.
    ///
    /// # Errors
    /// If the whole call or the sync fails.
    fn finish(&self) -> Result<FinishReport>;

    /// The number of open connections; 0 for an end on this machine.
    fn streams(&self) -> u32 {
        0
    }

    /// The bytes sent over connections so far; zeros for an end on this machine.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    /// With [`SinkCaps::clones`]: copies a local file by sharing its blocks (reflink). `None` if the file system cannot.
    /// With `read`, the clone is read from the disk and hashed before it is renamed into place.
    ///
    /// # Errors
    /// If the file system can share blocks and the copy failed. `SourceChanged` if the file is no longer the `entry`,
    /// `Cancelled` if `read` returned false.
    fn clone_file(
        &self,
        _entry: &Entry,
        _file: &File,
        _read: Option<&CloneRead<'_>>,
    ) -> Result<Option<Outcome>> {
        Ok(None)
    }
}
