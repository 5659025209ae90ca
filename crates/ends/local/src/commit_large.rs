//! The part of committing that is about large files: slices are recorded, and a complete file gets its name.

use std::sync::Arc;

use haul_core::digest::slice_len;
use haul_core::{ChainingValue, Digest, Error, ErrorKind, Outcome, Result, Retry, SLICE_LEN};

use super::commit::{Committer, Item};
use super::large::LargeFile;
use super::meta::On;
use super::{pagecache, recheck, stage};

/// What there is to be done about one large file of a group.
pub(super) struct LargeWork {
    pub(super) large: Arc<LargeFile>,
    pub(super) items: Vec<Item>,
    pub(super) dirty: Vec<(u32, ChainingValue)>,
    /// The file's digest, if it is complete.
    pub(super) digest: Option<Digest>,
    pub(super) failure: Option<Error>,
    /// Some of what was written may never have reached the disk, though it can be read from memory.
    pub(super) is_lost: bool,
}

impl LargeWork {
    /// It could not be synced.
    pub(super) fn fail(&mut self, error: Error) {
        self.failure = Some(error);
        self.is_lost = true;
    }
}

impl Committer {
    /// Lets a large file count as complete, its content being durable.
    fn finish_large(&self, large: &LargeFile, digest: Digest) -> Result<Outcome> {
        let (staged, entry) = (&large.staged, &large.entry);
        if !large.in_place {
            let published = self.publish(staged, entry, digest)?;
            let _ = stage::remove(&stage::journal_of(&staged.at));
            return Ok(published);
        }
        if self.verify_disk {
            self.read_back(&staged.file, entry, digest)?;
        }
        let set = self.metadata.set(&On::File(staged), entry);
        set.map_err(|errno| self.root.error("set the metadata of", &entry.path, errno))?;
        Ok(Outcome::Committed(Some(digest)))
    }

    pub(super) fn commit_large(&self, one: LargeWork) {
        let LargeWork { large, items, dirty, digest, failure, mut is_lost } = one;
        let entry = &large.entry;
        if self.durable && failure.is_none() {
            // Of a file that is complete, slices may have come after `dirty` was taken, and were synced with it.
            let written = if digest.is_some() { &[][..] } else { &dirty };
            for (index, _) in written {
                let start = u64::from(*index) * SLICE_LEN;
                pagecache::release(&large.staged.file, start, slice_len(entry.len, *index));
            }
        }
        let result = match (failure, digest) {
            (Some(error), _) => Err(error),
            (None, Some(digest)) => {
                let finished = self.finish_large(&large, digest);
                match &finished {
                    Ok(_) => {
                        self.bases.forget(&entry.path);
                        let mut committed = self.committed.lock();
                        committed.put(entry.path.clone(), (entry.identity(), digest));
                    }
                    // It is tried again once the folder in its place is empty: then these need not be sent again.
                    Err(error) if error.kind() == ErrorKind::NotEmpty => {
                        let _ = large.record(dirty, self.durable);
                    }
                    Err(_) => {}
                }
                finished
            }
            (None, None) => large.record(dirty, self.durable).map(|()| Outcome::Stored).map_err(|e| {
                is_lost = true;
                let error = Error::io(self.root.side(), "record", &e).on(self.root.shown(&entry.path));
                error.with_retry(Retry::Anew)
            }),
        };
        // Of one that failed, nobody knows which of the slices that are not recorded are there: what comes now begins
        // again at the record, or with a new file if what was written may be lost.
        match (&result, digest) {
            (Err(error), _) => large.end(Err(error.clone())),
            (Ok(_), Some(digest)) => large.end(Ok(digest)),
            (Ok(_), None) => {}
        }
        // What did not verify is of no use to a later run, nor is what cannot have its name.
        let stale = |error: &Error| match error.kind() {
            ErrorKind::Corrupt => error.retry() != Retry::Anew,
            kind => kind == ErrorKind::Unsupported,
        };
        let stale = result.as_ref().err().is_some_and(stale);
        if stale || is_lost {
            large.give_up();
        }
        if result.is_err() {
            recheck::cancel(self, &large);
        }
        if digest.is_some() || result.is_err() {
            self.large_files.lock().remove(&entry.path);
        }
        let last = items.len().saturating_sub(1);
        for (at, item) in items.into_iter().enumerate() {
            // The file is committed once, so one slice says so and the others are merely stored.
            let outcome = match &result {
                Ok(Outcome::Committed(_)) if at < last => Ok(Outcome::Stored),
                other => other.clone(),
            };
            if outcome == Ok(Outcome::Stored) && at == last && large.waits_for_recheck() {
                self.hold(&large, item);
            } else {
                item.ticket.settle(item.at, outcome);
            }
        }
    }
}
