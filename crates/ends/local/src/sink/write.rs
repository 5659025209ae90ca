//! Writing the content of batches.

use std::collections::HashMap;
use std::sync::Arc;

use haul_core::{
    BatchData, Changes, Delta, Digest, Entry, Error, ErrorKind, Outcome, RelPath, Result, Retry, SLICE_LEN,
    Side, Slice, SliceData, WriteDone,
};
use haul_ends::hashed::HashedBytes;

use super::state::LocalSink;
use crate::commit::queue::{QueueItem, WrittenItem};
use crate::network_fs::direct;
use crate::path::at::At;
use crate::path::stat;
use crate::read::digest;
use crate::stage::large::LargeFile;
use crate::stage::small::stage_small;
use crate::stage::write::Same;
use crate::ticket::{PendingSlice, WriteTicket};

/// How a batch arrived.
#[derive(Clone, Copy)]
struct BatchArrival {
    /// This process has read the content, which needs no verification.
    at_hand: bool,
    /// The content may have arrived before.
    again: bool,
}

/// The state of a slice that the sink has taken.
pub(super) enum TakenState {
    /// The slice waits to be durable.
    Waits(WrittenItem),
    /// Its file was committed before.
    Committed(Digest),
}

/// One slice of a batch.
struct SliceWrite<'a> {
    at: usize,
    entry: &'a Arc<Entry>,
    slice: Slice,
    data: &'a SliceData,
    content: &'a [u8],
}

/// The readable slices of a batch. The others are settled.
fn jobs<'a>(data: &'a BatchData, ticket: &WriteTicket) -> Vec<SliceWrite<'a>> {
    let mut used = 0;
    let mut jobs = Vec::with_capacity(data.slices.len());
    for (at, ((entry, slice), read)) in data.batch.iter().zip(&data.slices).enumerate() {
        match read {
            Err(error) => ticket.settle(at, Err(error.clone())),
            Ok(read) => {
                let len = read.data_len() as usize;
                let content = data.content.bytes().get(used..used + len).unwrap_or_default();
                used += len;
                jobs.push(SliceWrite { at, entry, slice, data: read, content });
            }
        }
    }
    jobs
}

/// Orders jobs so that adjacent ones are in different directories: the kernel and most servers make the names of one
/// directory one after the other. The rest of the largest directory comes last.
fn spread(jobs: &mut [SliceWrite<'_>]) {
    let mut before: HashMap<Option<RelPath>, u32> = HashMap::new();
    jobs.sort_by_cached_key(|job| {
        let count = before.entry(job.entry.path.parent()).or_default();
        *count += 1;
        *count
    });
}

impl LocalSink {
    /// Writes a batch of content without unchanged pages.
    pub(super) fn write_batch(&self, data: &BatchData, done: WriteDone) {
        let ticket = WriteTicket::new(data.slices.len(), done);
        let arrival = BatchArrival { at_hand: data.at_hand, again: data.batch.again };
        let mut jobs = jobs(data, &ticket);
        let threads = &self.committer.threads;
        if !threads.is_single() {
            spread(&mut jobs);
        }
        threads.each(&jobs, |job| {
            let _doing = self.tree().doing("write", &job.entry.path);
            let pending = PendingSlice { ticket: ticket.clone(), at: job.at };
            // Each is handed over by itself: another one of the batch may hang at a server.
            self.hand_over(pending, job.content.len() as u64, self.take(job, arrival));
        });
    }

    /// Hands a slice over to the committing thread, or settles it.
    pub(super) fn hand_over(&self, pending: PendingSlice, bytes: u64, taken: Result<TakenState>) {
        match taken {
            Ok(TakenState::Waits(what)) => {
                self.committer.queue.push(QueueItem { pending, bytes, what }, &self.committer.threads);
            }
            Ok(TakenState::Committed(digest)) => pending.settle(Ok(Outcome::Committed(Some(digest)))),
            Err(error) => pending.settle(Err(error.or_retry(Retry::of_write))),
        }
    }

    /// Verifies and writes one slice.
    fn take(&self, job: &SliceWrite<'_>, arrival: BatchArrival) -> Result<TakenState> {
        let SliceWrite { entry, slice, data, content, .. } = *job;
        self.check(entry)?;
        if entry.is_stream() && slice.part.is_some() {
            let cause = "only a program takes a stream in parts";
            return Err(self.root().fault(ErrorKind::Protocol, "write", &entry.path, cause));
        }
        if !arrival.at_hand && !data.proves(entry, slice, content) {
            let cause = format!("slice {} did not arrive as it was sent", slice.index);
            return Err(self.root().fault(ErrorKind::Corrupt, "verify", &entry.path, &cause));
        }
        if entry.len <= SLICE_LEN {
            return self.take_small(entry, data, content, arrival.again);
        }
        let large = match self.large(entry)? {
            Ok(large) => large,
            Err(digest) => return Ok(TakenState::Committed(digest)),
        };
        if self.options.delta != Delta::Never {
            self.committer.bases.arrived(entry, data);
        }
        let locked = large.lock_slice(slice);
        let written = large.write(slice, data, content, Same::Missing);
        drop(locked);
        written.map_err(|e| self.write_error(&large, &e))?;
        Ok(TakenState::Waits(WrittenItem::Slice(large)))
    }

    /// Writes a whole small file with its metadata. With `again`, a file that has arrived before is not written again.
    fn take_small(
        &self,
        entry: &Arc<Entry>,
        data: &SliceData,
        content: &[u8],
        again: bool,
    ) -> Result<TakenState> {
        self.committer.check_current(entry)?;
        // The chaining value of the only slice is the digest of the file.
        let digest = Digest(data.value.0);
        let preserve = &self.options.preserve;
        let made =
            if self.direct { direct::make(self.tree(), entry, data, content, preserve)? } else { None };
        let exists = |at: &At| again && self.is_complete(at, entry, digest);
        let staged = match made {
            Some(made) => Some(made),
            None => stage_small(self.tree(), entry, data, content, preserve, &exists)?,
        };
        let Some(staged) = staged else {
            // The process that committed it may have been killed while it wrote a further copy.
            self.unclean.lock().push(Arc::clone(entry));
            return Ok(TakenState::Committed(digest));
        };
        let written = staged.written();
        let set = if staged.direct {
            self.metadata().set_written_without_times(&written, entry)
        } else {
            self.metadata().set_written(&written, entry)
        };
        if let Err(errno) = set {
            staged.abandon();
            return Err(self.root().error("set the metadata of", &entry.path, errno));
        }
        Ok(TakenState::Waits(WrittenItem::Small(Box::new(staged), entry.clone(), digest)))
    }

    /// The error of a write to a large file. After a temporary one the file is discarded, to be written from its start.
    pub(super) fn write_error(&self, large: &Arc<LargeFile>, error: &std::io::Error) -> Error {
        let error = Error::io(Side::Destination, "write", error)
            .on(self.root().shown(&large.entry().path))
            .or_retry(Retry::of_write);
        if error.retry() == Retry::Anew {
            self.committer.lose(large, &error);
        }
        error
    }

    /// Whether a small file exists with this content and metadata.
    fn is_complete(&self, at: &At, entry: &Entry, digest: Digest) -> bool {
        stat::statx(at).is_ok_and(|now| {
            self.has_size_and_time(at, &now, entry)
                && self.metadata().changes(self.tree(), at, &now, entry).is_ok_and(Changes::is_empty)
        }) && digest::of_path(self.root(), &entry.path, None, &HashedBytes::default())
            .is_ok_and(|found| found == digest)
    }
}
