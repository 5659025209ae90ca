//! The ledger decides about each outcome: it counts the file, sends a slice again, or reports a failure.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use haul_core::event::{Action, Content, Done};
use haul_core::retry::CONNECTION_RETRIES;
use haul_core::{Digest, Entry, Error, ErrorKind, Outcome, RelPath, Result, Retries, Retry, Side, Slice};

use crate::confirmed::ConfirmedBy;
use crate::flusher::SecondOffer;
use crate::hung::HungWatch;
use crate::queue::is_large;
use crate::run::{PROGRESS, Run};
use crate::worker::SettledBatch;

/// How long large files may be open with nothing in flight.
const UNCONFIRMED: Duration = Duration::from_millis(if cfg!(test) { 100 } else { 2000 });
/// How often such files are offered again before they fail.
const UNCONFIRMED_RETRIES: u32 = 5;

/// Why a file ends before all of it is at the destination.
enum EarlyEnd {
    /// It failed.
    Failed(Error),
    /// It changed while it was read; it may be copied again.
    Changed,
    /// The destination has lost the content that it had of the file; the file may be copied again.
    Lost,
}

/// Settles batches.
pub(crate) struct Ledger<'a, 'b> {
    run: &'a Run<'b>,
    /// Files for the flusher to offer once more.
    rechecks: Sender<SecondOffer>,
    /// Files that changed once.
    changed: HashSet<RelPath>,
    /// Files that the destination lost once.
    lost: HashSet<RelPath>,
    retries: HashMap<(RelPath, u32, Option<u8>), Retries>,
    /// Large files that have ended while slices of them are in flight.
    ended: HashMap<RelPath, EarlyEnd>,
    progress_at: Instant,
    hung: HungWatch,
    /// Since when large files are open with nothing in flight.
    idle_since: Option<Instant>,
    idle_rounds: u32,
}

impl<'a, 'b> Ledger<'a, 'b> {
    pub(crate) fn new(run: &'a Run<'b>, rechecks: Sender<SecondOffer>) -> Self {
        Self {
            run,
            rechecks,
            changed: HashSet::new(),
            lost: HashSet::new(),
            retries: HashMap::new(),
            ended: HashMap::new(),
            progress_at: Instant::now(),
            hung: HungWatch::new(),
            idle_since: None,
            idle_rounds: 0,
        }
    }

    /// Does the periodic work.
    pub(crate) fn tick(&mut self, workers: usize) {
        let run = self.run;
        run.queue.allow(workers);
        self.recheck_unconfirmed();
        self.hung.tick(run);
        run.look(workers);
        if self.progress_at.elapsed() >= PROGRESS {
            self.progress_at = Instant::now();
            run.show_progress();
        }
    }

    /// Finds large files that were sent completely and never confirmed.
    fn recheck_unconfirmed(&mut self) {
        let run = self.run;
        let is_idle = run.fed.load(Ordering::Acquire) && run.in_flight.batches() == 0 && run.queue.is_empty();
        let unconfirmed = if is_idle { run.open.large() } else { Vec::new() };
        if unconfirmed.is_empty() {
            self.idle_since = None;
            return;
        }
        if self.idle_since.get_or_insert_with(Instant::now).elapsed() < UNCONFIRMED {
            return;
        }
        self.idle_since = None;
        self.idle_rounds += 1;
        for path in unconfirmed {
            if self.idle_rounds <= UNCONFIRMED_RETRIES {
                drop(self.rechecks.send(SecondOffer::Unconfirmed(path)));
            } else if run.open.remove_large(&path) {
                let cause = "all of it was sent, and the destination does not say that it is there";
                let error = Error::new(ErrorKind::Io, Side::Destination, "commit", cause).on(path.as_bytes());
                run.report_failure(&path, error);
                run.open.remove();
            }
        }
    }

    /// Settles a batch.
    pub(crate) fn settle(&mut self, settled: SettledBatch) {
        let SettledBatch { batch, outcomes, matched } = settled;
        self.run.in_flight.remove(&batch);
        self.run.meter.outlook.end_batch(&batch, self.run.meter.seconds());
        self.update_disk_full(&outcomes);
        let mut outcomes = outcomes.into_iter();
        for (entry, slice) in batch.iter() {
            let outcome = outcomes.next().unwrap_or_else(|| {
                Err(Error::new(ErrorKind::Protocol, Side::Destination, "write", "the answer is too short"))
            });
            self.settle_slice(entry, slice, outcome, matched);
        }
    }

    /// Reports to the gate whether the batch fitted.
    fn update_disk_full(&self, outcomes: &[Result<Outcome>]) {
        let (gate, meter) = (&self.run.disk_full, self.run.meter);
        let full = outcomes.iter().find_map(|outcome| outcome.as_ref().err().filter(|e| gate.waits_for(e)));
        match full {
            Some(error) => gate.set_full(error, meter),
            None => gate.set_not_full(outcomes.iter().any(Result::is_ok), meter),
        }
    }

    fn settle_slice(&mut self, entry: &Arc<Entry>, slice: Slice, outcome: Result<Outcome>, matched: u64) {
        if let Some(end) = self.ended.remove(&entry.path) {
            self.end(entry, end);
            return;
        }
        if outcome.is_ok() {
            let mut totals = self.run.meter.totals();
            totals.sent_bytes += slice.len_in(entry.len).saturating_sub(matched);
            totals.matched_bytes += matched;
        }
        match outcome {
            Ok(Outcome::Stored) if is_large(entry) => {}
            // A small file is one slice, so no other outcome would follow.
            Ok(Outcome::Stored) => {
                let cause = "the destination says that a part of it is there, and it has only one";
                let error = Error::new(ErrorKind::Protocol, Side::Destination, "commit", cause);
                self.retry_or_end(entry, slice, error.on(entry.path.as_bytes()));
            }
            Ok(Outcome::Committed(digest)) => self.commit(entry, digest),
            Err(error) => self.retry_or_end(entry, slice, error),
        }
    }

    /// Counts a committed file. Several slices of a large file can report the commit: those that were written at the
    /// same time, and those that were sent again. Only the first report counts.
    fn commit(&self, entry: &Entry, digest: Option<Digest>) {
        let run = self.run;
        if is_large(entry) && !run.open.remove_large(&entry.path) {
            return;
        }
        run.meter.totals().copied(entry.len);
        run.confirm(entry, ConfirmedBy::Sent);
        let changes = run.open.take_changes(&entry.path);
        let content = digest.map_or(Content::Unknown, Content::Digest);
        let done = Done::new(Action::of_copy(changes), changes, entry);
        run.meter.done(&entry.path, Done { content, ..done });
        run.open.remove();
    }

    fn retry_or_end(&mut self, entry: &Arc<Entry>, slice: Slice, error: Error) {
        if self.run.stopped() {
            // The next run sends it again.
            return;
        }
        let waits = self.run.disk_full.waits_for(&error);
        if error.retry() == Retry::Anew && (waits || self.lost.insert(entry.path.clone())) {
            self.run.meter.totals().resent += 1;
            if is_large(entry) {
                self.end(entry, EarlyEnd::Lost);
            } else {
                self.run.queue.add_again(entry.clone(), slice);
            }
            return;
        }
        if waits {
            self.run.queue.add_again(entry.clone(), slice);
            return;
        }
        // It is open a moment later, too.
        let is_locked = self.run.locked_for(&error).is_some();
        if !is_locked && self.may_retry(entry, slice, error.retry()) {
            self.run.meter.totals().resent += 1;
            self.run.queue.add_again(entry.clone(), slice);
            return;
        }
        match error.kind() {
            ErrorKind::SourceChanged => self.end(entry, EarlyEnd::Changed),
            ErrorKind::NoSpace | ErrorKind::Unreachable => {
                self.run.abort(error.clone());
                self.end(entry, EarlyEnd::Failed(error));
            }
            _ => self.end(entry, EarlyEnd::Failed(error)),
        }
    }

    /// Counts a retry of a slice. `false` if it has none left.
    fn may_retry(&mut self, entry: &Entry, slice: Slice, retry: Retry) -> bool {
        let key = (entry.path.clone(), slice.index, slice.part);
        let may = self.retries.entry(key.clone()).or_default().may_repeat(retry, CONNECTION_RETRIES);
        if !may {
            self.retries.remove(&key);
        }
        may
    }

    /// Ends a file, as soon as no slice of it is in flight.
    fn end(&mut self, entry: &Arc<Entry>, end: EarlyEnd) {
        let path = &entry.path;
        if is_large(entry) {
            // The rest is read all the same, so that all of its bad pages are found.
            let reads_on = matches!(&end, EarlyEnd::Failed(error) if error.kind() == ErrorKind::BadPages);
            if reads_on && self.run.queue.has_large(path) {
                self.ended.insert(path.clone(), end);
                return;
            }
            self.run.meter.outlook.drop_needed(self.run.queue.drop_large(path));
            if self.run.in_flight.has_slices_of(path) {
                self.ended.insert(path.clone(), end);
                return;
            }
            if !self.run.open.remove_large(path) {
                return;
            }
        } else {
            self.run.meter.outlook.drop_needed(entry.len);
        }
        let error = match end {
            EarlyEnd::Failed(error) => error,
            // The file stays open until the flusher has offered it once more.
            EarlyEnd::Changed if self.changed.insert(path.clone()) => {
                drop(self.rechecks.send(SecondOffer::Changed(path.clone())));
                return;
            }
            EarlyEnd::Lost => {
                drop(self.rechecks.send(SecondOffer::Lost(path.clone())));
                return;
            }
            EarlyEnd::Changed => {
                let cause = "the file changed while it was read, also the second time";
                Error::new(ErrorKind::SourceChanged, Side::Source, "copy", cause).on(path.as_bytes())
            }
        };
        if !self.run.defer(entry, &error) {
            self.run.report_failure(path, error);
        }
        self.run.open.remove();
    }
}
