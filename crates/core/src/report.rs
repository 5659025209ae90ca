//! What a run did: totals, failures, and what could not be kept.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::path::RelPath;
use crate::text::shown;

/// An operation that a file system does not answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HungOperation {
    /// What is being done, as in "read".
    #[serde(deserialize_with = "shown")]
    pub operation: String,
    /// With what: a path as the person may know it.
    #[serde(with = "serde_bytes")]
    pub path: Vec<u8>,
}

/// Counts of a run. Every entry that the scan found is in exactly one of `copied`, `made`, `updated`, `same`,
/// `left`, `linked` and `failed`, or was never reached because the run was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Totals {
    /// Entries that the scan found.
    pub found: u64,
    /// Bytes of content in the files that the scan found.
    pub found_bytes: u64,
    /// Entries that the rules left out.
    pub excluded: u64,
    /// Files whose content was sent, verified and committed.
    pub copied: u64,
    /// Bytes of content in those files.
    pub copied_bytes: u64,
    /// Bytes of content that were read and sent: less than `copied_bytes` with resumed and changed files.
    pub sent_bytes: u64,
    /// Bytes of content as they went over connections, packed or not, those that were sent again too; those that
    /// passed through this machine, between two others, both ways. 0 where both ends are on one machine.
    pub wire_bytes: u64,
    /// Of these, those that came here only to go on to another machine.
    pub relayed_bytes: u64,
    /// Bytes of content that an interrupted run had left at the destination, and were not sent again.
    pub resumed_bytes: u64,
    /// Bytes of content that were not sent because they were the same in files that were there.
    pub matched_bytes: u64,
    /// Directories, symbolic links and special files that were made.
    pub made: u64,
    /// Further names of files that were linked.
    pub linked: u64,
    /// Entries whose metadata alone was set.
    pub updated: u64,
    /// Entries that were the same already.
    pub same: u64,
    /// Bytes of content in the files that were the same already.
    pub same_bytes: u64,
    /// Entries that an option said to leave.
    pub left: u64,
    /// Entries that were removed at the destination.
    pub removed: u64,
    /// Entries that failed, each reported by name.
    pub failed: u64,
    /// Slices that were sent again because they did not verify or their stream died.
    pub resent: u64,
}

/// Something that failed, with the entry that it concerns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The entry, below the root of its source.
    pub path: RelPath,
    /// What happened.
    pub error: Error,
}

impl Failure {
    /// What is tried in vain with a key of a store that no file can have: the operation of such an error.
    pub const NO_FILE: &'static str = "take as a file";

    /// Whether it concerns something that has no path below the root, and is called what its error is about.
    #[must_use]
    pub fn has_no_path(&self) -> bool {
        self.error.operation() == Self::NO_FILE
            && (self.path.is_root() || !self.error.subject().ends_with(self.path.as_bytes()))
    }
}

/// A kind of metadata that could not be set, how often, and the first example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetaNote {
    /// What could not be set: `owner`, `mode`, `times`, `xattr user.x` …
    #[serde(deserialize_with = "shown")]
    pub what: String,
    /// Why, in the system's words.
    #[serde(deserialize_with = "shown")]
    pub cause: String,
    /// On how many entries.
    pub count: u64,
    /// The first of them.
    pub example: RelPath,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
#[must_use]
pub struct Report {
    /// The counts.
    pub totals: Totals,
    /// Metadata that could not be set.
    pub notes: Vec<MetaNote>,
    /// What was left out because the source is not trusted with it, once for each kind.
    pub left_out: Vec<MetaNote>,
    /// What ended the run before its end, if something did.
    pub fatal: Option<Error>,
    /// Whether the run was interrupted; it can be resumed by running it again.
    pub interrupted: bool,
    /// Entries whose content did not verify, also after it was sent again.
    pub corrupt: u64,
    /// Why nothing was removed though it was asked for, if so.
    pub not_removed: Option<String>,
    /// Nothing was removed because the command is probably a mistake: it ends as one that makes no sense.
    pub refused: bool,
    /// How long it took, in seconds.
    pub seconds: f64,
}

impl Report {
    /// Whether everything that was found is accounted for.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.fatal.is_none() && !self.interrupted && self.totals.failed == 0 && self.not_removed.is_none()
    }
}

impl Totals {
    /// An entry of so many bytes is there already. Lengths are what the other end says: their sum may be none.
    pub fn same(&mut self, len: u64) {
        self.same += 1;
        self.same_bytes = self.same_bytes.saturating_add(len);
    }

    /// The content of a file of so many bytes was copied.
    pub fn copied(&mut self, len: u64) {
        self.copied += 1;
        self.copied_bytes = self.copied_bytes.saturating_add(len);
    }

    /// So many bytes that were counted as sent did not have to be.
    pub fn matched(&mut self, bytes: u64) {
        self.sent_bytes = self.sent_bytes.saturating_sub(bytes);
        self.matched_bytes += bytes;
    }

    /// So many bytes that were counted as sent were there from an interrupted run.
    pub fn resumed(&mut self, bytes: u64) {
        self.sent_bytes = self.sent_bytes.saturating_sub(bytes);
        self.resumed_bytes += bytes;
    }

    /// Adds the counts of another part of the run.
    pub fn add(&mut self, other: &Self) {
        self.found += other.found;
        self.found_bytes += other.found_bytes;
        self.excluded += other.excluded;
        self.copied += other.copied;
        self.copied_bytes += other.copied_bytes;
        self.sent_bytes += other.sent_bytes;
        self.wire_bytes += other.wire_bytes;
        self.relayed_bytes += other.relayed_bytes;
        self.resumed_bytes += other.resumed_bytes;
        self.matched_bytes += other.matched_bytes;
        self.made += other.made;
        self.linked += other.linked;
        self.updated += other.updated;
        self.same += other.same;
        self.same_bytes += other.same_bytes;
        self.left += other.left;
        self.removed += other.removed;
        self.failed += other.failed;
        self.resent += other.resent;
    }
}
