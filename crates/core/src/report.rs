//! The results of a run: totals, failures, and metadata that could not be set.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::page_checks::PageCounts;
use crate::path::RelPath;
use crate::text::shown;

/// An operation that the file system has not answered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HungOperation {
    /// The operation, such as "read".
    #[serde(deserialize_with = "shown")]
    pub operation: String,
    /// The path, as the user knows it.
    #[serde(with = "serde_bytes")]
    pub path: Vec<u8>,
}

/// The counts of a run. Every entry that the scan found is in exactly one of `copied`, `made`, `updated`, `same`,
/// `left`, `linked` and `failed`, unless the run was interrupted before it. An entry that could not be
/// removed at the source after it was copied is in `failed` too ([`Report::kept`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Totals {
    /// Entries that the scan found.
    pub found: u64,
    /// The bytes of content in the files that the scan found.
    pub found_bytes: u64,
    /// Entries that the rules excluded.
    pub excluded: u64,
    /// Files whose content was sent, verified and committed.
    pub copied: u64,
    /// The bytes of content in those files.
    pub copied_bytes: u64,
    /// The bytes of content that were read and sent: less than `copied_bytes` if files were resumed or sent as deltas.
    pub sent_bytes: u64,
    /// The bytes of content as sent over connections, compressed or not, with retransmissions. Bytes that are relayed
    /// between two remote hosts count twice. 0 if both ends are on one host.
    pub wire_bytes: u64,
    /// Of these, the bytes that this host relayed between two remote hosts.
    pub relayed_bytes: u64,
    /// The bytes of content that were resumed: an interrupted run had sent them.
    pub resumed_bytes: u64,
    /// The bytes of content that were not sent because files at the destination had them.
    pub matched_bytes: u64,
    /// The bytes of content in files that the file system cloned (reflink).
    pub cloned_bytes: u64,
    /// Directories, symbolic links and special files that were created.
    pub made: u64,
    /// Hard links that were created.
    pub linked: u64,
    /// Entries of which only metadata was set.
    pub updated: u64,
    /// Entries that were up to date.
    pub same: u64,
    /// The bytes of content in the files that were up to date.
    pub same_bytes: u64,
    /// Entries that an option excluded.
    pub left: u64,
    /// Entries that were deleted at the destination.
    pub removed: u64,
    /// Entries that were removed at the source, after they were copied.
    pub removed_at_source: u64,
    /// Entries that failed, each reported by name.
    pub failed: u64,
    /// Slices that were sent again, because they did not verify, could not be read, or their connection was lost.
    pub resent: u64,
}

/// An entry that failed, and its error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The path of the entry below the root of the source.
    pub path: RelPath,
    /// The error.
    pub error: Error,
}

impl Failure {
    /// The operation of an error about an object key that cannot be the name of a file.
    pub const NO_FILE: &'static str = "take as a file";

    /// Whether it has no path below the root, so that the subject of the error names it.
    #[must_use]
    pub fn has_no_path(&self) -> bool {
        self.error.operation() == Self::NO_FILE
            && (self.path.is_root() || !self.error.subject().ends_with(self.path.as_bytes()))
    }
}

/// A kind of metadata that could not be set, with the count and the first example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetaNote {
    /// The kind of metadata: `owner`, `mode`, `times`, `xattr user.x` …
    #[serde(deserialize_with = "shown")]
    pub what: String,
    /// The cause, as the system words it.
    #[serde(deserialize_with = "shown")]
    pub cause: String,
    /// The number of entries.
    pub count: u64,
    /// The first of these entries.
    pub example: RelPath,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
#[must_use]
pub struct Report {
    /// The counts.
    pub totals: Totals,
    /// Metadata that could not be set.
    pub notes: Vec<MetaNote>,
    /// Entries and metadata that were not taken over, and why, once for each kind.
    pub left_out: Vec<MetaNote>,
    /// The error that aborted the run, if any.
    pub fatal: Option<Error>,
    /// Whether the run was interrupted; running it again resumes it.
    pub interrupted: bool,
    /// Entries whose content did not verify even after retransmission.
    pub corrupt: u64,
    /// Why a requested deletion was not done, if so.
    pub not_removed: Option<String>,
    /// Entries that were copied, and then could not be removed at the source.
    pub kept: u64,
    /// Whether the deletion was refused because the command is probably a mistake; the exit code is that of a usage
    /// error.
    pub refused: bool,
    /// The pages of database files that were checked, if that was asked for.
    pub pages: Option<PageCounts>,
    /// The duration in seconds.
    pub seconds: f64,
}

impl Report {
    /// Whether the run did everything that was asked for.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.fatal.is_none() && !self.interrupted && self.totals.failed == 0 && self.not_removed.is_none()
    }
}

impl Totals {
    /// The entries whose outcome is known.
    #[must_use]
    pub fn settled(&self) -> u64 {
        self.copied + self.made + self.linked + self.updated + self.same + self.left + self.failed
    }

    /// The bytes of content that were found and are not copied yet.
    #[must_use]
    pub fn bytes_to_copy(&self) -> u64 {
        self.found_bytes.saturating_sub(self.same_bytes).saturating_sub(self.copied_bytes)
    }

    /// Counts an up-to-date entry of `len` bytes. The peer claims the lengths, so their sum saturates.
    pub fn same(&mut self, len: u64) {
        self.same += 1;
        self.same_bytes = self.same_bytes.saturating_add(len);
    }

    /// Counts a copied file of `len` bytes.
    pub fn copied(&mut self, len: u64) {
        self.copied += 1;
        self.copied_bytes = self.copied_bytes.saturating_add(len);
    }

    /// Counts bytes as matched that were counted as sent.
    pub fn matched(&mut self, bytes: u64) {
        self.sent_bytes = self.sent_bytes.saturating_sub(bytes);
        self.matched_bytes += bytes;
    }

    /// Counts bytes as resumed that were counted as sent.
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
        self.cloned_bytes += other.cloned_bytes;
        self.made += other.made;
        self.linked += other.linked;
        self.updated += other.updated;
        self.same += other.same;
        self.same_bytes += other.same_bytes;
        self.left += other.left;
        self.removed += other.removed;
        self.removed_at_source += other.removed_at_source;
        self.failed += other.failed;
        self.resent += other.resent;
    }
}
