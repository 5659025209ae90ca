//! The single owner of what became of each file: counts it, sends it again, or reports it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use haul_core::event::Action;
use haul_core::{
    Batch, Entry, Error, ErrorKind, HungOperation, Outcome, RelPath, Result, Retry, Side, Slice,
};

use crate::copy::Run;
use crate::flusher::Again;
use crate::queue::is_large;

/// A slice that does not verify is sent again so often.
const VERIFY_AGAIN: u32 = 3;
/// A slice whose stream dies is sent again so often: only a transfer that makes no progress at all gets there.
const STREAM_AGAIN: u32 = 50;
/// How often the front end hears of the progress.
const PROGRESS: Duration = Duration::from_millis(200);
/// How often it is looked whether a file system has stopped to answer.
const LOOK: Duration = Duration::from_millis(500);

/// So long nothing may be in flight before large files that are open are looked at again.
const STUCK: Duration = Duration::from_secs(2);
/// So often they are.
const STUCK_ROUNDS: u32 = 5;

/// How a file comes to its end before all of it is there.
enum End {
    /// For good.
    Failed(Error),
    /// It changed while it was read; it may be copied again.
    Changed,
    /// What the destination had of it is gone; it may be copied again.
    Lost,
}

/// Settles batches.
pub(crate) struct Ledger<'a, 'b> {
    run: &'a Run<'b>,
    /// To the flusher: files that changed while they were read, to be looked at again.
    look: Sender<Again>,
    changed_once: HashSet<RelPath>,
    /// Files of which the destination has lost something before.
    lost_once: HashSet<RelPath>,
    /// Slices that were sent again: how often because of their content, and because of their stream.
    again: HashMap<(RelPath, u32, Option<u8>), (u32, u32)>,
    /// Large files that have come to an end while slices of them are still in flight.
    ended: HashMap<RelPath, End>,
    told: Instant,
    /// What a file system does not answer, as it was last told, and when that was last looked for.
    hung: Option<HungOperation>,
    looked: Instant,
    /// Since when nothing is in flight though large files are open, and how often that was.
    idle_since: Option<Instant>,
    idle_rounds: u32,
}

impl<'a, 'b> Ledger<'a, 'b> {
    pub(crate) fn new(run: &'a Run<'b>, look: Sender<Again>) -> Self {
        Self {
            run,
            look,
            idle_since: None,
            idle_rounds: 0,
            changed_once: HashSet::new(),
            lost_once: HashSet::new(),
            again: HashMap::new(),
            ended: HashMap::new(),
            told: Instant::now(),
            hung: None,
            looked: Instant::now(),
        }
    }

    /// What is due from time to time.
    pub(crate) fn tick(&mut self, workers: usize) {
        let run = self.run;
        run.queue.allow(workers);
        self.find_hung();
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            run.tell_of_hung(&mut self.hung);
        }
        if self.told.elapsed() >= PROGRESS {
            self.told = Instant::now();
            run.meter.progress(&run.link());
        }
    }

    /// Looks for large files of which all was sent and nothing is heard any more.
    fn find_hung(&mut self) {
        let run = self.run;
        let hung = if run.fed.load(Ordering::Acquire) && run.in_flight() == 0 && run.queue.is_empty() {
            run.open_large_files()
        } else {
            Vec::new()
        };
        if hung.is_empty() {
            self.idle_since = None;
            return;
        }
        if self.idle_since.get_or_insert_with(Instant::now).elapsed() < STUCK {
            return;
        }
        self.idle_since = None;
        self.idle_rounds += 1;
        for path in hung {
            if self.idle_rounds <= STUCK_ROUNDS {
                drop(self.look.send(Again::HungOperation(path)));
            } else if run.close_large(&path) {
                let cause = "all of it was sent, and the destination does not say that it is there";
                let error = Error::new(ErrorKind::Io, Side::Destination, "commit", cause).on(path.as_bytes());
                run.meter.fail(&path, error);
                run.open.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// A batch has come to its end; so many bytes of it did not have to be sent.
    pub(crate) fn settle(&mut self, batch: &Arc<Batch>, outcomes: Vec<Result<Outcome>>, matched: u64) {
        self.run.landed(batch);
        let missing =
            || Error::new(ErrorKind::Protocol, Side::Destination, "write", "the answer is too short");
        let full = |outcome: &Result<Outcome>| {
            outcome.as_ref().err().filter(|e| self.run.room.waits_for(e)).cloned()
        };
        match outcomes.iter().find_map(full) {
            Some(error) => self.run.room.is_full(&error, self.run.meter),
            None => self.run.room.is_not_full(outcomes.iter().any(Result::is_ok), self.run.meter),
        }
        let mut outcomes = outcomes.into_iter();
        for (entry, slice) in batch.iter() {
            let outcome = outcomes.next().unwrap_or_else(|| Err(missing()));
            self.slice(entry, slice, outcome, matched);
        }
    }

    fn slice(&mut self, entry: &Arc<Entry>, slice: Slice, outcome: Result<Outcome>, matched: u64) {
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
            // Nothing more will be sent of it, and nothing more be told.
            Ok(Outcome::Stored) => {
                let cause = "the destination says that a part of it is there, and it has only one";
                let error = Error::new(ErrorKind::Protocol, Side::Destination, "commit", cause);
                self.failed(entry, slice, error.on(entry.path.as_bytes()));
            }
            Ok(Outcome::Committed(_)) => {
                // Several slices of a large file may tell that it is committed: those that were written when the last
                // one was, and those that were sent again though they had arrived.
                if is_large(entry) && !self.run.close_large(&entry.path) {
                    return;
                }
                self.run.meter.totals().copied(entry.len);
                let action = if self.run.replaced(&entry.path) { Action::Replaced } else { Action::Copied };
                self.run.meter.entry(action, &entry.path, entry.len);
                self.run.open.fetch_sub(1, Ordering::AcqRel);
            }
            Err(error) => self.failed(entry, slice, error),
        }
    }

    fn failed(&mut self, entry: &Arc<Entry>, slice: Slice, error: Error) {
        if self.run.stopped() {
            // What is in flight when a run stops is what the next run sends again.
            return;
        }
        let waits = self.run.room.waits_for(&error);
        if error.retry() == Retry::Anew && (waits || self.lost_once.insert(entry.path.clone())) {
            self.run.meter.totals().resent += 1;
            if is_large(entry) {
                self.end(entry, End::Lost);
            } else {
                self.run.queue.again(entry.clone(), slice);
            }
            return;
        }
        if waits {
            self.run.queue.again(entry.clone(), slice);
            return;
        }
        let tried = self.again.entry((entry.path.clone(), slice.index, slice.part)).or_default();
        let (count, most) = match error.retry() {
            Retry::Again => (&mut tried.0, VERIFY_AGAIN),
            Retry::OtherStream => (&mut tried.1, STREAM_AGAIN),
            Retry::Never | Retry::Anew => (&mut tried.0, 0),
        };
        *count += 1;
        if *count <= most {
            self.run.meter.totals().resent += 1;
            self.run.queue.again(entry.clone(), slice);
            return;
        }
        self.again.remove(&(entry.path.clone(), slice.index, slice.part));
        match error.kind() {
            ErrorKind::SourceChanged => self.end(entry, End::Changed),
            ErrorKind::NoSpace | ErrorKind::Unreachable => {
                self.run.abort(error.clone());
                self.end(entry, End::Failed(error));
            }
            _ => self.end(entry, End::Failed(error)),
        }
    }

    /// Ends a file, once nothing of it is in flight any more.
    fn end(&mut self, entry: &Arc<Entry>, end: End) {
        let path = &entry.path;
        if is_large(entry) {
            self.run.queue.drop_large(path);
            if self.run.is_flying(path) {
                self.ended.insert(path.clone(), end);
                return;
            }
            if !self.run.close_large(path) {
                return;
            }
        }
        let error = match end {
            End::Failed(error) => error,
            End::Changed if self.changed_once.insert(path.clone()) => {
                // It stays open until the flusher has looked at it again.
                drop(self.look.send(Again::Changed(path.clone())));
                return;
            }
            End::Lost => {
                drop(self.look.send(Again::Lost(path.clone())));
                return;
            }
            End::Changed => {
                let cause = "the file changed while it was read, also the second time";
                Error::new(ErrorKind::SourceChanged, Side::Source, "copy", cause).on(path.as_bytes())
            }
        };
        if !self.run.sets_aside(entry, &error) {
            self.run.meter.fail(path, error);
        }
        self.run.open.fetch_sub(1, Ordering::AcqRel);
    }
}
