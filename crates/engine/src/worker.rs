//! One worker: takes a batch, reads it, writes it, takes the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crossbeam_channel::Sender;
use haul_core::{Error, ErrorKind, Retry, Side, SliceData};

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
        if !run.go_on() {
            let error = Error::new(ErrorKind::Cancelled, Side::Local, "copy", "the run was stopped");
            let outcomes = batch.slices.iter().map(|_| Err(error.clone())).collect();
            drop(settled.send((batch, outcomes, 0)));
            return;
        }
        let matched = Arc::new(AtomicU64::new(0));
        let done = {
            let (settled, batch, matched) = (settled.clone(), batch.clone(), matched.clone());
            // The ledger may be gone when an interrupted run does not wait any longer.
            Box::new(move |outcomes| drop(settled.send((batch, outcomes, matched.load(Ordering::Relaxed)))))
        };
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
