//! The wiring of one pass: which threads start, and how they end. Each stage ends when the stage before it has ended.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use haul_core::ScanBatch;
use haul_threads::{ScopedThreads, spawn};

use crate::comparer::compare;
use crate::feed::feed;
use crate::flusher::{SecondOffer, run_flusher};
use crate::ledger::Ledger;
use crate::run::{PROGRESS, Run};
use crate::worker::{SettledBatch, work};

/// The number of threads that offer entries to the sink: enough to hide the latency of a connection.
const FEEDERS: usize = 6;
/// The number of scan batches that wait for a feeder.
const FOUND: usize = 32;
/// How often the ledger checks whether all is done.
const TICK: Duration = Duration::from_millis(10);
/// How long an interrupted run waits for batches in flight.
const DRAIN: Duration = Duration::from_millis(if cfg!(test) { 200 } else { 4000 });

/// Copies the entries that `find` sends, from scan to commit, with `workers` workers (0: as many as the ends can use).
pub(crate) fn pipeline(run: &Run<'_>, workers: usize, find: impl FnOnce(&Sender<ScanBatch>) + Send) {
    let (found_in, found): (Sender<ScanBatch>, Receiver<ScanBatch>) = bounded(FOUND);
    let (settled_in, settled): (Sender<SettledBatch>, Receiver<SettledBatch>) = unbounded();
    let (rechecks_in, rechecks): (Sender<SecondOffer>, Receiver<SecondOffer>) = unbounded();
    prepare(run, workers);
    std::thread::scope(|scope| {
        let _close = CloseOnDrop(run);
        let feeding = Arc::new(SetFedOnDrop(run));
        let feeders = ScopedThreads::new(scope, "feed", {
            let feeding = feeding.clone();
            move |_| {
                run.guarded(|| feed(run, &found));
                drop(feeding);
            }
        });
        let comparers =
            ScopedThreads::new(scope, "compare", move |number| run.guarded(|| compare(run, number)));
        let worker_threads =
            ScopedThreads::new(scope, "work", move |number| run.guarded(|| work(run, number, &settled_in)));
        let scan = move || {
            run.guarded(|| find(&found_in));
            drop((found_in, feeding));
        };
        // A system that refuses more threads has to give one of each kind. Without a comparer there is no delta.
        if run.delta.load(Ordering::Relaxed) && comparers.grow(1).is_err() {
            run.delta.store(false, Ordering::Relaxed);
        }
        let started = worker_threads
            .grow(1)
            .and_then(|()| spawn(scope, "flush", move || run.guarded(|| run_flusher(run, &rechecks))))
            .and_then(|_| feeders.grow(1))
            .and_then(|()| spawn(scope, "scan", scan));
        match started {
            Ok(_) => drop(feeders.grow(FEEDERS)),
            Err(error) => run.abort(error),
        }
        drop(feeders);
        settle_all(run, &settled, Ledger::new(run, rechecks_in), || {
            let wanted = run.workers(workers);
            if !run.stopped() {
                // The first thread of each kind runs, so this cannot fail.
                drop(worker_threads.grow(wanted));
                if run.queue.has_compared() {
                    drop(comparers.grow(wanted));
                }
            }
            wanted
        });
    });
}

/// Does work after the pipeline, and reports the progress meanwhile.
pub(crate) fn with_progress<T>(run: &Run<'_>, work: impl FnOnce() -> T) -> T {
    let mut progress_at = Instant::now();
    let report = || {
        run.look(0);
        if progress_at.elapsed() >= PROGRESS {
            progress_at = Instant::now();
            run.show_progress();
        }
    };
    reporting(TICK, report, work)
}

/// Does work, and calls `report` at this interval meanwhile.
pub(crate) fn reporting<T>(every: Duration, mut report: impl FnMut() + Send, work: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        let (work_in, ended) = bounded::<()>(0);
        let reports = move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                report();
            }
        };
        // Without this thread only the progress is missing.
        drop(spawn(scope, "progress", reports));
        let result = work();
        drop(work_in);
        result
    })
}

/// Prepares the queue and the ends before any thread starts.
fn prepare(run: &Run<'_>, workers: usize) {
    run.queue.allow(run.workers(workers));
    let streams = run.source.streams() + run.sink.streams();
    if streams > 0 && run.source_caps.parts && run.sink_caps.parts {
        run.queue.split();
    }
    // A remote end reports hung operations only after the first request for them.
    run.source.hung(run.timeout);
    run.sink.hung(run.timeout);
}

/// Settles batches until all files are done or the run has ended. `grow` starts more workers if the ends can use them,
/// and returns the number wanted.
fn settle_all(
    run: &Run<'_>,
    settled: &Receiver<SettledBatch>,
    mut ledger: Ledger<'_, '_>,
    grow: impl Fn() -> usize,
) {
    let mut drain_until: Option<Instant> = None;
    loop {
        match settled.recv_timeout(TICK) {
            Ok(settled) => ledger.settle(settled),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        ledger.tick(grow());
        let no_open_files = run.open.count() == 0 || run.stopped();
        if run.fed.load(Ordering::Acquire) && no_open_files && run.in_flight.batches() == 0 {
            return;
        }
        if run.cancel.is_cancelled() {
            run.queue.close();
            let until = *drain_until.get_or_insert_with(|| Instant::now() + DRAIN);
            if Instant::now() > until {
                return;
            }
        }
    }
}

/// Closes the queue when it is dropped, so that no thread waits for work any more. A panic stops the run.
struct CloseOnDrop<'a, 'b>(&'a Run<'b>);

impl Drop for CloseOnDrop<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
        self.0.queue.close();
    }
}

/// The scan and each feeder hold this. When the last of them drops it, no more files will be queued.
struct SetFedOnDrop<'a, 'b>(&'a Run<'b>);

impl Drop for SetFedOnDrop<'_, '_> {
    fn drop(&mut self) {
        self.0.fed.store(true, Ordering::Release);
    }
}
