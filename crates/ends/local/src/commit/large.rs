//! Committing large files: their slices are recorded, and a complete file is renamed into place.

use std::sync::Arc;

use haul_core::digest::slice_len;
use haul_core::{Digest, Error, ErrorKind, Outcome, Result, Retry, SLICE_LEN};

use super::committer::Committer;
use crate::read::page_cache;
use crate::stage::large::{HashedSlice, LargeFile};
use crate::stage::names::journal_of;
use crate::ticket::PendingSlice;

/// One large file of a group.
pub(super) struct LargeWork {
    pub(super) large: Arc<LargeFile>,
    pub(super) pending: Vec<PendingSlice>,
    pub(super) dirty: Vec<HashedSlice>,
    /// The digest of the file, if it is complete.
    pub(super) digest: Option<Digest>,
    pub(super) failure: Option<Error>,
    /// Written content may never have reached the disk, though it can be read from the page cache.
    pub(super) is_lost: bool,
}

impl LargeWork {
    /// The file could not be synced.
    pub(super) fn fail(&mut self, error: Error) {
        self.failure = Some(error);
        self.is_lost = true;
    }
}

impl Committer {
    /// Records the synced slices of one file, or completes it, and settles its pending slices.
    pub(super) fn commit_large(&self, work: LargeWork) {
        let LargeWork { large, pending, dirty, digest, failure, mut is_lost } = work;
        if self.durable && failure.is_none() {
            self.release(&large, &dirty, digest.is_some());
        }
        let result = match (failure, digest) {
            (Some(error), _) => Err(error),
            (None, Some(digest)) => self.complete_large(&large, dirty, digest),
            (None, None) => large.record(dirty, self.durable).map(|()| Outcome::Stored).map_err(|e| {
                is_lost = true;
                let root = &self.tree.root;
                let error =
                    Error::io(root.side(), "write the journal of", &e).on(root.shown(&large.entry().path));
                error.with_retry(Retry::Anew)
            }),
        };
        self.end_large(&large, &result, digest, is_lost);
        self.settle_large(&large, pending, &result);
    }

    /// Drops synced slices from the page cache. A complete file may have slices that came after `dirty` was taken; it
    /// is dropped as a whole later.
    fn release(&self, large: &LargeFile, dirty: &[HashedSlice], is_complete: bool) {
        for (index, _) in dirty.iter().filter(|_| !is_complete) {
            let start = u64::from(*index) * SLICE_LEN;
            page_cache::release(&large.staged.file, start, slice_len(large.entry().len, *index));
        }
    }

    /// Publishes a complete file, whose content is durable.
    fn complete_large(&self, large: &LargeFile, dirty: Vec<HashedSlice>, digest: Digest) -> Result<Outcome> {
        let entry = large.entry();
        let completed = self.publish_large(large, digest);
        match &completed {
            Ok(_) => {
                self.bases.forget(&entry.path);
                self.committed.lock().put(entry.path.clone(), (entry.identity(), digest));
            }
            // The engine tries again once the directory in the way is empty: then the slices need not be sent again.
            Err(error) if error.kind() == ErrorKind::NotEmpty => {
                let _ = large.record(dirty, self.durable);
            }
            Err(_) => {}
        }
        completed
    }

    fn publish_large(&self, large: &LargeFile, digest: Digest) -> Result<Outcome> {
        let (staged, entry) = (&large.staged, large.entry());
        if !large.in_place {
            let published = self.publish(staged, entry, digest)?;
            let _ = journal_of(&staged.at).remove();
            return Ok(published);
        }
        if self.verify_disk {
            self.read_back(&staged.file, entry, digest)?;
        }
        self.metadata
            .set_written(&staged.written(), entry)
            .map_err(|errno| self.tree.root.error("set the metadata of", &entry.path, errno))?;
        Ok(Outcome::Committed(Some(digest)))
    }

    /// Discards a file of which written content may be lost.
    pub(crate) fn lose(&self, large: &Arc<LargeFile>, error: &Error) {
        self.end_large(large, &Err(error.clone()), None, true);
    }

    /// Closes a file that is complete or has failed. After a failure nobody knows which unrecorded slices are in place:
    /// the next slice begins again at the record, or with a new file if written content may be lost.
    fn end_large(
        &self,
        large: &Arc<LargeFile>,
        result: &Result<Outcome>,
        digest: Option<Digest>,
        is_lost: bool,
    ) {
        match (result, digest) {
            (Err(error), _) => large.end(Err(error.clone())),
            (Ok(_), Some(digest)) => large.end(Ok(digest)),
            (Ok(_), None) => {}
        }
        if is_lost || result.as_ref().err().is_some_and(is_useless_to_resume) {
            large.discard();
        }
        if result.is_err() {
            self.rechecks.cancel(large);
        }
        if digest.is_some() || result.is_err() {
            self.large_files.lock().remove(&large.entry().path);
        }
    }

    /// Settles the pending slices of a file. The file is committed once, so the last slice reports that, and the others
    /// are merely stored.
    fn settle_large(&self, large: &Arc<LargeFile>, pending: Vec<PendingSlice>, result: &Result<Outcome>) {
        let last = pending.len().saturating_sub(1);
        for (at, pending) in pending.into_iter().enumerate() {
            let outcome = match result {
                Ok(Outcome::Committed(_)) if at < last => Ok(Outcome::Stored),
                other => other.clone(),
            };
            if outcome == Ok(Outcome::Stored) && at == last && large.waits_for_recheck() {
                self.queue.hold(large, pending);
            } else {
                pending.settle(outcome);
            }
        }
    }
}

/// Whether a later run has no use for the staged file: it did not verify, or cannot have its name.
fn is_useless_to_resume(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Corrupt => error.retry() != Retry::Anew,
        kind => kind == ErrorKind::Unsupported,
    }
}
