//! Events of a run, for front ends.

use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use crate::changes::Changes;
use crate::digest::Digest;
use crate::entry::{Entry, EntryKind};
use crate::packing::{Method, Tcp};
use crate::page_checks::BadPage;
use crate::path::RelPath;
use crate::report::{Failure, Totals};

/// The bottleneck of the run, measured over the last seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The scan.
    #[default]
    Scan,
    /// The comparison with the destination.
    Compare,
    /// Reading and hashing at the source.
    Source,
    /// The link, or the encryption on it.
    Link,
    /// Writing at the destination.
    Destination,
    /// The bandwidth limit.
    Rate,
    /// The bandwidth limit that the run sets itself to yield to other work.
    Nice,
    /// The limit on file system operations per second.
    Iops,
    /// The destination is full.
    Room,
}

/// The stages of a run, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It finds, compares and copies entries.
    #[default]
    Copy,
    /// It creates hard links.
    Link,
    /// It deletes extraneous entries of the destination.
    Delete,
    /// It sets the metadata of directories, and syncs the destination.
    Finish,
}

/// The progress of a run. Written as JSON in the order of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Progress {
    /// Seconds since the run began.
    pub seconds: f64,
    /// Whether the scan has ended, so that `found` is final.
    pub scan_done: bool,
    /// The rate over the last seconds, in bytes of content per second.
    pub rate: f64,
    /// The number of open connections of both ends; 0 if both are local.
    pub streams: u32,
    /// The current compression; `None` if content is sent uncompressed.
    #[serde(rename = "packed", serialize_with = "as_text", skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    /// The TCP statistics of the local kernel, for direct connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Tcp>,
    /// The bottleneck.
    pub limit: Limit,
    /// The stage of the run.
    pub phase: Phase,
    /// The estimated seconds left; `None` if unknown.
    pub eta_seconds: Option<f64>,
    /// Whether work may be left that the estimate does not include, because it is not known yet.
    pub eta_is_lower_bound: bool,
    /// Whether the estimate includes entries that the scan has not found yet, but expects.
    pub eta_is_extrapolated: bool,
    /// In a run that only reads, the bytes of content that are done, also those of files that are not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checked_bytes: Option<u64>,
    /// How many entries will be removed in all; `None` until the destination is listed, and in a run that removes none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_remove: Option<u64>,
    /// The counts so far.
    pub totals: Totals,
}

fn as_text<S: Serializer>(method: &Option<Method>, serializer: S) -> Result<S::Ok, S::Error> {
    method.map(|method| method.to_string()).serialize(serializer)
}

/// The action on one entry; with `-n`, the action that a real run would take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A new file was copied.
    Copied,
    /// A file was copied and replaced an existing entry.
    Replaced,
    /// A directory, symbolic link or special file was created.
    Made,
    /// A hard link was created.
    Linked,
    /// Only metadata was set.
    Updated,
    /// An option excluded the entry.
    Left,
    /// The entry was deleted at the destination.
    Removed,
    /// A file was up to date. Reported only if the caller asked for digests.
    Same,
    /// The entry was removed at the source, after it was copied.
    RemovedAtSource,
}

impl Action {
    /// The action on a file that was copied. `changes` says how it differed from that of the destination.
    #[must_use]
    pub fn of_copy(changes: Changes) -> Self {
        if changes.has(Changes::NEW) { Self::Copied } else { Self::Replaced }
    }
}

/// The content of a file at the destination, as far as this run knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// The run has not verified it, or the entry is no file.
    Unknown,
    /// The content has this digest: it was verified on arrival, or compared with the source by digest.
    Digest(Digest),
    /// The entry is another name of the file with this name (hard link).
    OfName(&'a [u8]),
}

/// The action on one entry, and the reason for it.
#[derive(Clone, Copy, Debug)]
pub struct Done<'a> {
    /// The action.
    pub action: Action,
    /// The kind of the entry; `None` if only its name is known, and that it is not a directory.
    pub kind: Option<&'a EntryKind>,
    /// The reason: how the destination differed, as far as its end tells that.
    pub changes: Changes,
    /// The length of its content in bytes.
    pub len: u64,
    /// Its content.
    pub content: Content<'a>,
}

impl<'a> Done<'a> {
    /// An action on `entry` whose content the run has not verified.
    #[must_use]
    pub fn new(action: Action, changes: Changes, entry: &'a Entry) -> Self {
        Self { action, kind: Some(&entry.kind), changes, len: entry.len, content: Content::Unknown }
    }
}

/// An event.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// The progress; several times a second.
    Progress(Progress),
    /// The file that is being copied, whenever it is another one. Of several, the one with the most content in flight.
    InFlight(&'a RelPath),
    /// An entry is done. Up-to-date entries are not reported, except as [`Action::Same`].
    Entry {
        /// The entry.
        path: &'a RelPath,
        /// The action on it.
        done: Done<'a>,
    },
    /// An entry failed.
    Failed(&'a Failure),
    /// A page of a database file does not match its checksum.
    BadPage(&'a BadPage),
    /// Information for the user: a sentence without a full stop.
    Note(&'a str),
    /// As a note, but about a problem: printed also when only errors are.
    Warning(&'a str),
    /// The destination is full, and the run waits: a warning.
    Full {
        /// The first error.
        error: &'a crate::Error,
        /// The rest of the sentence.
        then: &'a str,
    },
}

/// Receives notes where there is no [`Reporter`] yet, such as while an end is opened.
pub type Note = Arc<dyn Fn(&str) + Send + Sync>;

/// Receives events, from any thread. It must not block for long.
pub trait Reporter: Send + Sync {
    /// An event occurred.
    fn event(&self, event: &Event<'_>);
}
