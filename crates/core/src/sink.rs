//! The contract of the writing end.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::delta::PageHashes;
use crate::digest::Digest;
use crate::entry::Entry;
use crate::error::Result;
use crate::packing::Traffic;
use crate::path::RelPath;
use crate::report::{HungOperation, MetaNote};
use crate::slice::{Batch, BatchData};

/// An entry of the source, offered ahead of its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The entry.
    pub entry: Arc<Entry>,
    /// Its digest, where [`crate::Compare::Checksum`] needs it.
    pub digest: Option<Digest>,
}

/// Why an entry is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Left {
    /// It exists, and `--ignore-existing` was given.
    Exists,
    /// It does not exist, and `--existing` was given.
    Missing,
    /// It is newer, and `--update` was given.
    Newer,
    /// The destination cannot hold a thing of this kind, which it has noted.
    Unsupported,
}

/// What a sink says to an offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// It is there already, content and metadata.
    Same,
    /// Its metadata differed and has been set.
    Updated,
    /// It was not there, or something else was, and it has been made (directories, links, special files).
    Made,
    /// Its content must be sent.
    Need {
        /// Whether nothing was there under its name.
        new: bool,
        /// Slices that an interrupted run left here, verified and durable.
        have: Vec<Range<u32>>,
    },
    /// An option says to leave it.
    Left(Left),
}

/// A further name of a file that is at the destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardLink {
    /// The entry of the further name, for its path and for comparing.
    pub entry: Arc<Entry>,
    /// The name that the file was committed under.
    pub to: RelPath,
}

/// What became of one slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Written, verified and durable; other slices of the file are still to come.
    Stored,
    /// The whole file has its final name. The digest is the file's own; a file that the file system cloned was
    /// not read and has none.
    Committed(Option<Digest>),
}

/// Called once for each write, from any thread, with one outcome for each slice in order.
pub type WriteDone = Box<dyn FnOnce(Vec<Result<Outcome>>) + Send>;

/// What a sink has to say at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct FinishReport {
    /// Metadata that could not be set, once for each kind.
    pub notes: Vec<MetaNote>,
}

/// An end that data is written to. It may be used from many threads at once; calls block.
///
/// Every call may be repeated with the same arguments after an error with a retry: the outcome is the same.
pub trait Sink: Send + Sync {
    /// Compares entries with what is there, makes what has no content (directories, symbolic links, special
    /// files), and says which content it needs. One answer for each offer, in order.
    ///
    /// # Errors
    /// If the end as a whole cannot answer.
    fn offer(&self, offers: &[Offer]) -> Result<Vec<Result<Answer>>>;

    /// Takes the content of a batch: checks each slice against its proof, stages it, and commits each file that
    /// is complete. Returns when the content has been taken; `done` is called when it is durable.
    /// Slices that could not be read come back with their error.
    fn write(&self, data: BatchData, done: WriteDone);

    /// Does the same with content that it fetches from the source by itself, where it can: then that never passes this
    /// process. `done` comes back where it cannot (now), and [`Sink::write`] has to do.
    fn fetch(&self, _batch: &Arc<Batch>, done: WriteDone) -> Option<WriteDone> {
        Some(done)
    }

    /// What is at an entry's place, to be compared with it: the pages of these slices. Fewer than were asked for where
    /// it ends; none where there is nothing to compare with, or comparing has turned out to be of no use.
    ///
    /// # Errors
    /// If the end as a whole cannot answer.
    fn pages(&self, _entry: &Arc<Entry>, _slices: Range<u32>) -> Result<Vec<PageHashes>> {
        Ok(Vec::new())
    }

    /// Whether slices of large files may be written in parts ([`crate::Slice::part`]).
    fn has_parts(&self) -> bool {
        false
    }

    /// Makes durable and commits now what was taken so far, instead of in a while: nothing more will be written than
    /// what is being written. Said again and again until the end.
    fn flush(&self);

    /// What has been under way for so long, or longer, that the file system may never answer.
    fn hung(&self, _patience: Duration) -> Vec<HungOperation> {
        Vec::new()
    }

    /// Lets go of what is staged of files that will not be completed.
    ///
    /// # Errors
    /// If the end as a whole cannot answer.
    fn discard(&self, paths: &[RelPath]) -> Result<()>;

    /// Makes further names of files that are there.
    ///
    /// # Errors
    /// If the end as a whole cannot answer.
    fn link(&self, links: &[HardLink]) -> Result<Vec<Result<Answer>>>;

    /// Removes entries: files, links, empty directories. What is not there counts as removed. A directory that is not
    /// empty stays ([`crate::ErrorKind::NotEmpty`]), as does a name that stands for an entry of this run under another
    /// case ([`crate::ErrorKind::InUse`]). A sink that was opened for a dry run says what it would say.
    ///
    /// # Errors
    /// If the end as a whole cannot answer.
    fn remove(&self, paths: &[RelPath]) -> Result<Vec<Result<()>>>;

    /// Whether content is staged: then what takes the place of a folder is complete before anything in the folder is
    /// removed.
    fn stages(&self) -> bool {
        true
    }

    /// Sets the times and modes of directories, syncs everything, and reports. Nothing is written after it.
    ///
    /// # Errors
    /// If the end as a whole cannot answer, or the sync failed.
    fn finish(&self) -> Result<FinishReport>;

    /// Connections that are up; 0 for an end on this machine.
    fn streams(&self) -> u32 {
        0
    }

    /// What has gone over connections so far; nothing for an end on this machine.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    /// Batches that it takes at once with profit: each write that waits for a remote end to say something keeps one busy.
    fn writers(&self) -> u32 {
        self.streams()
    }

    /// Copies a local file without reading it, where the file system can share its blocks. `None`: it cannot.
    ///
    /// # Errors
    /// If it can, and it failed.
    fn clone_file(&self, _entry: &Entry, _file: &File) -> Result<Option<Outcome>> {
        Ok(None)
    }
}
