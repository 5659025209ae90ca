//! One worker: takes a batch, reads it, writes it, takes the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crossbeam_channel::Sender;
use haul_core::{Batch, Error, ErrorKind, Outcome, Result, Retry, Side, SliceData, WriteDone};

use crate::copy::{Run, Settled};
use crate::meter::Spent;
use crate::queue::Work;

/// Works until the queue is closed. What becomes of each batch goes to `settled`.
pub(crate) fn work(run: &Run<'_>, number: usize, settled: &Sender<Settled>) {
    let mut since = Instant::now();
    // The queue of a run that was stopped is closed a moment later: in that time nothing more is begun.
    while !run.stopped()
        && let Some(Work { batch, pages }) = run.queue.take(number, |batch| run.taken(batch))
    {
        since = run.meter.spent(Spent::Waiting, since);
        let matched = Arc::new(AtomicU64::new(0));
        let pending =
            Pending { settled: settled.clone(), batch: Some(batch.clone()), matched: matched.clone() };
        let done: WriteDone = Box::new(move |outcomes| pending.settle(outcomes));
        if !run.go_on() {
            let error = Error::new(ErrorKind::Cancelled, Side::Local, "copy", "the run was stopped");
            done(batch.slices.iter().map(|_| Err(error.clone())).collect());
            return;
        }
        let Some(done) = run.sink.fetch(&batch, done) else {
            since = run.meter.spent(Spent::Writing, since);
            continue;
        };
        let read = match &pages {
            Some(pages) => run.source.read_changed(&batch, pages),
            None => run.source.read(&batch),
        };
        since = run.meter.spent(Spent::Reading, since);
        match read {
            Ok(data) => {
                let same = data.slices.iter().flatten().map(SliceData::same_len).sum();
                matched.store(same, Ordering::Relaxed);
                run.sink.write(data, done);
                since = run.meter.spent(Spent::Writing, since);
            }
            Err(error) => {
                let gone = error.retry() == Retry::Never;
                if gone {
                    run.abort(error.clone());
                }
                done(batch.slices.iter().map(|_| Err(error.clone())).collect());
            }
        }
    }
}

/// A batch that was taken and is not settled. Dropped unsettled, as by a thread that panics, it has failed: the ledger
/// waits for every batch.
struct Pending {
    settled: Sender<Settled>,
    batch: Option<Arc<Batch>>,
    matched: Arc<AtomicU64>,
}

impl Pending {
    fn settle(mut self, outcomes: Vec<Result<Outcome>>) {
        self.send(outcomes);
    }

    fn send(&mut self, outcomes: Vec<Result<Outcome>>) {
        if let Some(batch) = self.batch.take() {
            // The ledger may be gone when an interrupted run does not wait any longer.
            drop(self.settled.send((batch, outcomes, self.matched.load(Ordering::Relaxed))));
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(batch) = &self.batch else { return };
        let error = Error::new(ErrorKind::Io, Side::Local, "copy", "the thread that had it ended early");
        self.send(batch.slices.iter().map(|_| Err(error.clone())).collect());
    }
}
