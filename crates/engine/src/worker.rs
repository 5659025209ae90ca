//! One worker thread: takes a batch, reads it, and writes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crossbeam_channel::Sender;
use haul_core::sink::ArrivingContent;
use haul_core::{
    Batch, BatchData, ChainingValue, Error, ErrorKind, Outcome, PageHashes, Result, Retry, Side, SliceData,
    WriteDone,
};

use crate::bottleneck::{Doing, WorkerActivity};
use crate::queue::Work;
use crate::run::Run;

/// A message to the ledger: the outcomes of a batch.
pub(crate) struct SettledBatch {
    pub(crate) batch: Arc<Batch>,
    /// One for each slice.
    pub(crate) outcomes: Vec<Result<Outcome>>,
    /// The bytes of each slice that the destination had, so that they were not sent.
    pub(crate) matched: u64,
}

/// Works until the queue is closed. Sends the outcomes of each batch to `settled`. `number` counts the workers from 0.
pub(crate) fn work(run: &Run<'_>, number: usize, settled: &Sender<SettledBatch>) {
    // A run that stops closes the queue a moment later. No work begins in between.
    while !run.stopped()
        && let Some(Work { batch, pages }) = run.queue.take(number, |batch| run.in_flight.add(batch))
    {
        let matched = Arc::new(AtomicU64::new(0));
        let pending =
            PendingBatch { settled: settled.clone(), batch: Some(batch.clone()), matched: matched.clone() };
        let done: WriteDone = Box::new(move |outcomes| pending.settle(outcomes));
        if !run.wait_for_space() {
            let error = Error::new(ErrorKind::Cancelled, Side::Local, "copy", "the run was stopped");
            done(batch.slices.iter().map(|_| Err(error.clone())).collect());
            return;
        }
        let begun = Instant::now();
        run.meter.outlook.begin_batch(&batch, run.meter.seconds());
        let sent = || {
            let (seconds, now) = (begun.elapsed().as_secs_f64(), run.meter.seconds());
            run.meter.outlook.sent_batch(&batch, seconds, now);
        };
        let fetching = run.sink_caps.fetches.then(|| run.meter.bottleneck.begin(WorkerActivity::Writing));
        let unfetched = if run.sink_caps.fetches { run.sink.fetch(&batch, done) } else { Some(done) };
        drop(fetching);
        let Some(done) = unfetched else {
            sent();
            continue;
        };
        let mut done = Some(done);
        let read = match &pages {
            Some(pages) => read_changed(run, &batch, pages).map(Some),
            None => read(run, &batch, &mut done),
        };
        if let Some(done) = done {
            write(run, read, &batch, &matched, done);
        }
        sent();
    }
}

/// Reads the content that the destination lacks.
fn read_changed(run: &Run<'_>, batch: &Arc<Batch>, pages: &PageHashes) -> Result<BatchData> {
    let _reading = run.meter.bottleneck.begin(WorkerActivity::Reading);
    run.source.read_changed(batch, pages)
}

/// Reads a batch. `None` if the sink took its content, with `done`, while that arrived.
fn read(run: &Run<'_>, batch: &Arc<Batch>, done: &mut Option<WriteDone>) -> Result<Option<BatchData>> {
    let bottleneck = &run.meter.bottleneck;
    let mut reading = Some(bottleneck.begin(WorkerActivity::Reading));
    let mut take = |batch: &Arc<Batch>, slices: &[Result<SliceData>], content: &mut dyn ArrivingContent| {
        // A sink may wait for a connection before it takes content of this machine.
        let (doing, unpaid) = if content.is_at_hand() {
            let len = slices.iter().flatten().map(SliceData::data_len).sum();
            (Some(bottleneck.begin(WorkerActivity::Writing)), len)
        } else {
            (reading.take(), 0)
        };
        let mut watched = WatchedContent { content, run, unpaid, doing };
        let taken = run.sink.write_arriving(batch, slices, &mut watched, done);
        drop(watched);
        reading = Some(bottleneck.begin(WorkerActivity::Reading));
        taken.map(|()| done.is_none())
    };
    run.source.read_arriving(batch, &mut take)
}

/// Content that a sink writes while it arrives: a worker reads while it waits for a piece, and writes the rest of the
/// time.
struct WatchedContent<'a> {
    content: &'a mut dyn ArrivingContent,
    run: &'a Run<'a>,
    /// Bytes that count against the rate limit before the first piece is read: one slice after another is sent, so that the
    /// first one counts soon.
    unpaid: u64,
    doing: Option<Doing<'a>>,
}

impl ArrivingContent for WatchedContent<'_> {
    fn next(&mut self) -> Result<&[u8]> {
        let bottleneck = &self.run.meter.bottleneck;
        self.doing = Some(bottleneck.begin(WorkerActivity::Reading));
        self.run.keep_rate(usize::try_from(std::mem::take(&mut self.unpaid)).unwrap_or(usize::MAX));
        let piece = self.content.next()?;
        self.doing = Some(bottleneck.begin(WorkerActivity::Writing));
        Ok(piece)
    }

    fn proof(&mut self) -> Result<Option<ChainingValue>> {
        self.content.proof()
    }

    fn is_at_hand(&self) -> bool {
        self.content.is_at_hand()
    }
}

/// Writes a batch that was read, or settles it with the error.
fn write(
    run: &Run<'_>,
    read: Result<Option<BatchData>>,
    batch: &Batch,
    matched: &AtomicU64,
    done: WriteDone,
) {
    let missing = || Error::new(ErrorKind::Protocol, Side::Source, "read", "there is no content");
    match read.and_then(|data| data.ok_or_else(missing)) {
        Ok(data) => {
            run.keep_rate(data.content.bytes().len());
            let same = data.slices.iter().flatten().map(SliceData::same_len).sum();
            matched.store(same, Ordering::Relaxed);
            let _writing = run.meter.bottleneck.begin(WorkerActivity::Writing);
            run.sink.write(data, done);
        }
        Err(error) => {
            let is_final = error.retry() == Retry::Never;
            if is_final {
                run.abort(error.clone());
            }
            done(batch.slices.iter().map(|_| Err(error.clone())).collect());
        }
    }
}

/// A batch that was taken and is not settled. The ledger waits for every batch, so one that is dropped unsettled, as by
/// a panic, has failed.
struct PendingBatch {
    settled: Sender<SettledBatch>,
    batch: Option<Arc<Batch>>,
    matched: Arc<AtomicU64>,
}

impl PendingBatch {
    fn settle(mut self, outcomes: Vec<Result<Outcome>>) {
        self.send(outcomes);
    }

    fn send(&mut self, outcomes: Vec<Result<Outcome>>) {
        if let Some(batch) = self.batch.take() {
            let matched = self.matched.load(Ordering::Relaxed);
            // The ledger may be gone, as an interrupted run waits only for a while.
            drop(self.settled.send(SettledBatch { batch, outcomes, matched }));
        }
    }
}

impl Drop for PendingBatch {
    fn drop(&mut self) {
        let Some(batch) = &self.batch else { return };
        let error = Error::new(ErrorKind::Io, Side::Local, "copy", "the thread that had it ended early");
        self.send(batch.slices.iter().map(|_| Err(error.clone())).collect());
    }
}
