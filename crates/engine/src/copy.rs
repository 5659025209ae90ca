//! Copying trees: the one function that starts the threads of a run and ends them in order.

use haul_core::sync::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use haul_core::filter::Rule;
use haul_core::{
    Batch, Error, ErrorKind, HungOperation, Outcome, RelPath, Report, Reporter, Result, ScanBatch,
    ScanOptions, Sink, Source,
};
use haul_threads::{ThreadPool, caught, spawn};

use crate::aside::Aside;
use crate::flusher::Again;
use crate::gate::Gate;
use crate::guard::Guard;
use crate::ledger::Ledger;
use crate::links::Links;
use crate::meter::{Link, Meter};
use crate::queue::{Queue, is_large};
use crate::rivals::Rival;
use crate::room::{OnFull, Room};
use crate::sift::{Sift, Trust};
use crate::{Cancel, compare, feed, flusher, prune, way, worker};

/// Threads that ask the sink about entries: enough that a link's latency does not hold up the comparing.
const FEEDERS: usize = 6;
/// Worker threads at most, and as many that compare large files; how many there are depends on the streams.
const MAX_WORKERS: usize = 40;
/// How often it is looked whether all is done.
const TICK: Duration = Duration::from_millis(10);
/// How long an interrupted run waits for what is in flight.
const DRAIN: Duration = Duration::from_secs(4);

/// One source with the place that it goes to.
pub struct Part {
    /// Where data is read from.
    pub source: Arc<dyn Source>,
    /// Where it is written to.
    pub sink: Arc<dyn Sink>,
    /// The same place as `sink`, opened for a dry run: what an earlier run saw of the source is compared through it.
    pub preview: Option<Arc<dyn Sink>>,
    /// The same place as `sink`, to be looked at: what is there is listed through it for deletion.
    pub view: Option<Arc<dyn Source>>,
    /// Other sources that go to the same place, in their order.
    pub rivals: Vec<Rival>,
}

/// How `sync` removes what the source does not have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delete {
    /// Remove nothing if more entries than this would have to go.
    pub max: Option<u64>,
    /// Remove although the scan of the source had errors.
    pub ignore_errors: bool,
    /// Remove although the source is empty, or more than half of the destination would have to go. So does `max`.
    pub force: bool,
}

/// Paths of a list, as they are read.
pub type Paths = Box<dyn Iterator<Item = Result<RelPath>> + Send>;

/// How a copy is made.
pub struct CopyOptions {
    /// What is looked at.
    pub scan: ScanOptions,
    /// Only these paths and what is below them, instead of the whole source; read as the run goes on.
    pub files_from: Option<Paths>,
    /// Compare by digest: the source hashes files that may be the same. The sinks must have been opened with
    /// [`haul_core::Compare::Checksum`].
    pub checksum: bool,
    /// Say what would be done, change nothing. The sinks must have been opened with the same.
    pub dry_run: bool,
    /// Remove what the source does not have, after the copy.
    pub delete: Option<Delete>,
    /// Large files that replace something are compared with it first, and only what differs is sent, where the sink
    /// finds that worth while ([`haul_core::SinkOptions::delta`]).
    pub delta: bool,
    /// Large files that are there are changed where they are. The sinks must have been opened with the same.
    pub in_place: bool,
    /// What is taken over from the source besides plain entries.
    pub trust: Trust,
    /// What exists at the destination is left alone. The sinks must have been opened with the same.
    pub ignore_existing: bool,
    /// What is done when the destination is full.
    pub on_full: OnFull,
    /// What a file system does not answer for so long is told of.
    pub patience: Duration,
    /// Batches in work at once; 0 lets the engine choose.
    pub workers: usize,
}

/// Everything that the threads of a run share.
pub(crate) struct Run<'a> {
    pub(crate) source: &'a dyn Source,
    pub(crate) sink: &'a dyn Sink,
    pub(crate) preview: Option<&'a dyn Sink>,
    pub(crate) rivals: &'a [Rival],
    /// What is left out of each source.
    pub(crate) rules: &'a [Rule],
    pub(crate) meter: &'a Meter<'a>,
    pub(crate) cancel: &'a Cancel,
    pub(crate) queue: Queue,
    pub(crate) links: Links,
    /// Bounds what was found and is not queued.
    pub(crate) gate: Gate,
    pub(crate) room: Room,
    pub(crate) guard: Guard<'a>,
    pub(crate) sift: Sift,
    pub(crate) patience: Duration,
    pub(crate) checksum: bool,
    pub(crate) dry_run: bool,
    /// Whether large files are compared with what is there; not where there is no thread for that.
    pub(crate) delta: AtomicBool,
    pub(crate) in_place: bool,
    pub(crate) ignore_existing: bool,
    /// What waits for a folder to go; `None` where nothing is removed, or nothing more.
    pub(crate) aside: Option<Aside>,
    /// Files that were queued and are neither committed nor failed.
    pub(crate) open: AtomicU64,
    /// Nothing more will be queued but what is queued again.
    pub(crate) fed: AtomicBool,
    /// Whether some of the source could not be looked at.
    pub(crate) scan_failed: AtomicBool,
    /// Whether the file system may be asked to clone files.
    pub(crate) try_clone: AtomicBool,
    /// Something ended the run before its end.
    pub(crate) aborted: AtomicBool,
    /// What was handed out and is not settled.
    flying: Mutex<Flying>,
    /// Files in the queue that replace something.
    replaced: Mutex<HashSet<RelPath>>,
    /// Large files that were queued and are neither committed nor failed.
    large_files: Mutex<HashSet<RelPath>>,
}

#[derive(Default)]
struct Flying {
    batches: u64,
    /// Slices of large files.
    large_files: HashMap<RelPath, u32>,
}

impl Run<'_> {
    /// Does the work of a thread; a panic in it ends the run.
    pub(crate) fn guarded(&self, work: impl FnOnce()) {
        if let Err(error) = caught(work) {
            self.abort(error);
        }
    }

    /// Whether no new work is to be taken.
    pub(crate) fn stopped(&self) -> bool {
        self.cancel.is_cancelled() || self.aborted.load(Ordering::Relaxed)
    }

    /// Tells of what was asked of a file system and is not answered. `told` is what was told of already.
    pub(crate) fn tell_of_hung(&self, told: &mut Option<HungOperation>) {
        let mut hung = self.source.hung(self.patience);
        hung.append(&mut self.sink.hung(self.patience));
        let Some(first) = hung.first() else { return };
        if told.as_ref() == Some(first) {
            return;
        }
        let more = match hung.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let (operation, path) = (&first.operation, haul_core::path::printable(&first.path));
        let seconds = self.patience.as_secs();
        self.meter.warn(&format!(
            "no answer from the file system for {seconds} s: {operation} {path}{more}; waiting, and going on with the rest"
        ));
        *told = Some(first.clone());
    }

    /// An entry failed; one for which there is no room ends the run, as it would not have come here if it waited.
    pub(crate) fn fail(&self, path: &RelPath, error: Error) {
        if error.kind() == ErrorKind::NoSpace {
            self.abort(error.clone());
        }
        self.meter.fail(path, error);
    }

    /// Ends the run because of an error that concerns all of it.
    pub(crate) fn abort(&self, error: haul_core::Error) {
        self.meter.abort(error);
        self.aborted.store(true, Ordering::Relaxed);
        self.queue.close();
    }

    fn lock_flying(&self) -> MutexGuard<'_, Flying> {
        self.flying.lock()
    }

    /// A worker has taken this batch.
    pub(crate) fn taken(&self, batch: &Batch) {
        let mut flying = self.lock_flying();
        flying.batches += 1;
        for (entry, _) in batch.iter().filter(|(entry, _)| is_large(entry)) {
            *flying.large_files.entry(entry.path.clone()).or_default() += 1;
        }
    }

    /// This batch is settled.
    pub(crate) fn landed(&self, batch: &Batch) {
        let mut flying = self.lock_flying();
        flying.batches = flying.batches.saturating_sub(1);
        for (entry, _) in batch.iter().filter(|(entry, _)| is_large(entry)) {
            if let Some(count) = flying.large_files.get_mut(&entry.path) {
                *count -= 1;
                if *count == 0 {
                    flying.large_files.remove(&entry.path);
                }
            }
        }
    }

    /// Whether slices of this large file were handed out and are not settled.
    pub(crate) fn is_flying(&self, path: &RelPath) -> bool {
        self.lock_flying().large_files.contains_key(path)
    }

    /// Batches that were handed out and are not settled.
    pub(crate) fn in_flight(&self) -> u64 {
        self.lock_flying().batches
    }

    /// A large file is about to be queued. `false`: it is there already, as a list may name it twice.
    pub(crate) fn open_large(&self, path: &RelPath) -> bool {
        self.large_files.lock().insert(path.clone())
    }

    /// The large files that are queued or in flight, or should be.
    pub(crate) fn open_large_files(&self) -> Vec<RelPath> {
        self.large_files.lock().iter().cloned().collect()
    }

    /// A large file has come to its end. `false`: it had before.
    pub(crate) fn close_large(&self, path: &RelPath) -> bool {
        self.large_files.lock().remove(path)
    }

    /// Remembers that the file replaces something, for what is said of it when it is committed.
    pub(crate) fn replaces(&self, path: &RelPath) {
        self.replaced.lock().insert(path.clone());
    }

    /// Whether the file replaced something; forgets it.
    pub(crate) fn replaced(&self, path: &RelPath) -> bool {
        self.replaced.lock().remove(path)
    }

    /// How many workers keep the streams busy: while a batch is being sent the next one is being read, and what
    /// is asked of a far source is asked before the last answer is in.
    fn workers(&self, wanted: usize) -> usize {
        let (from, to) = (self.source.streams() as usize, self.sink.writers() as usize);
        let auto = if from + to == 0 { 4 } else { 2 * from + to + 2 };
        if wanted == 0 { auto.min(MAX_WORKERS) } else { wanted.min(MAX_WORKERS) }
    }
}

/// A message to the ledger: a batch has come to its end, and so many bytes of it did not have to be sent.
pub(crate) type Settled = (Arc<Batch>, Vec<Result<Outcome>>, u64);

/// Copies each part in turn and reports on all of them together.
pub fn copy(parts: &[Part], mut options: CopyOptions, reporter: &dyn Reporter, cancel: &Cancel) -> Report {
    let meter = Meter::new(reporter);
    let mut report = Report::default();
    for part in parts {
        meter.scan_is_done(false);
        copy_part(part, &mut options, &meter, cancel, &mut report);
        if meter.fatal().is_some() || cancel.is_cancelled() {
            break;
        }
    }
    report.totals = *meter.totals();
    report.corrupt = meter.corrupt();
    report.fatal = meter.fatal();
    report.interrupted = cancel.is_cancelled();
    report.seconds = meter.seconds();
    report
}

impl<'a> Run<'a> {
    fn new(
        part: &'a Part,
        options: &CopyOptions,
        rules: &'a [Rule],
        meter: &'a Meter<'a>,
        cancel: &'a Cancel,
    ) -> Self {
        Self {
            source: &*part.source,
            sink: &*part.sink,
            preview: part.preview.as_deref(),
            rivals: &part.rivals,
            rules,
            meter,
            cancel,
            queue: Queue::default(),
            links: Links::default(),
            gate: Gate::default(),
            room: Room::new(options.on_full),
            guard: Guard::new(options.delete, part.view.as_deref()),
            sift: Sift::new(options.trust),
            patience: options.patience,
            checksum: options.checksum,
            dry_run: options.dry_run,
            delta: AtomicBool::new(options.delta),
            in_place: options.in_place,
            ignore_existing: options.ignore_existing,
            aside: None,
            open: AtomicU64::new(0),
            fed: AtomicBool::new(false),
            scan_failed: AtomicBool::new(false),
            try_clone: AtomicBool::new(!options.dry_run),
            aborted: AtomicBool::new(false),
            flying: Mutex::default(),
            replaced: Mutex::default(),
            large_files: Mutex::default(),
        }
    }
}

fn copy_part(
    part: &Part,
    options: &mut CopyOptions,
    meter: &Meter<'_>,
    cancel: &Cancel,
    report: &mut Report,
) {
    let rules = options.scan.rules.clone();
    let mut run = Run::new(part, options, &rules, meter, cancel);
    run.aside = (options.delete.is_some() && part.view.is_some()).then(Aside::default);
    let files_from = options.files_from.take();
    pipeline(&run, options.workers, |found| {
        feed::scan(&run, &options.scan, files_from, found);
    });
    let unhurt = || meter.fatal().is_none() && !cancel.is_cancelled();
    if unhurt() {
        run.links.make(&run);
    }
    if unhurt()
        && let (Some(delete), Some(view)) = (options.delete, &part.view)
    {
        let pruned = prune::prune(&run, &**view, &options.scan, delete);
        if let (Some(aside), true) = (&run.aside, unhurt()) {
            let mut second = Run::new(part, options, &rules, meter, cancel);
            second.guard = Guard::new(None, None);
            way::make(&second, aside, &pruned, options.workers);
        }
        report.not_removed = pruned.refused;
        report.refused = run.guard.has_refused();
    }
    if meter.fatal().is_none() {
        match run.sink.finish() {
            Ok(finished) => report.notes.extend(finished.notes),
            Err(error) => meter.abort(error),
        }
    }
    report.left_out.extend(run.sift.left_out());
    let link = run.link();
    meter.progress(&link);
    let mut totals = meter.totals();
    totals.wire_bytes += link.wire_bytes;
    totals.relayed_bytes += link.relayed_bytes;
    totals.matched(link.matched_bytes);
    totals.resumed(link.resumed_bytes);
}

/// Scan to commit: every thread is started here, and each stage ends when the one before it has.
/// `find` sends what there is to be copied.
pub(crate) fn pipeline(run: &Run<'_>, workers: usize, find: impl FnOnce(&Sender<ScanBatch>) + Send) {
    let (found_in, found): (Sender<ScanBatch>, Receiver<ScanBatch>) = bounded(32);
    let (settled_in, settled): (Sender<Settled>, Receiver<Settled>) = unbounded();
    let (look_in, look): (Sender<Again>, Receiver<Again>) = unbounded();
    run.queue.allow(run.workers(workers));
    let streams = run.source.streams() + run.sink.streams();
    if streams > 0 && run.source.has_parts() && run.sink.has_parts() {
        run.queue.split();
    }
    // A remote end has to be asked before anything hangs there.
    run.source.hung(run.patience);
    run.sink.hung(run.patience);
    std::thread::scope(|scope| {
        // However this ends, no thread is left waiting for work.
        let _closing = Closing(run);
        let fed = Arc::new(Fed(run));
        let feeders = ThreadPool::new(scope, "feed", {
            let fed = fed.clone();
            move |_| {
                run.guarded(|| feed::feed(run, &found));
                drop(fed);
            }
        });
        let askers =
            ThreadPool::new(scope, "compare", move |number| run.guarded(|| compare::compare(run, number)));
        let working = ThreadPool::new(scope, "work", move |number| {
            run.guarded(|| worker::work(run, number, &settled_in));
        });
        let scan = move || {
            run.guarded(|| find(&found_in));
            drop((found_in, fed));
        };
        // One of each has to do where the system gives no more.
        if run.delta.load(Ordering::Relaxed) && askers.grow(1).is_err() {
            run.delta.store(false, Ordering::Relaxed);
        }
        let begun = working
            .grow(1)
            .and_then(|()| spawn(scope, "keep", move || run.guarded(|| flusher::keep(run, &look))))
            .and_then(|_| feeders.grow(1))
            .and_then(|()| spawn(scope, "scan", scan));
        match begun {
            Ok(_) => drop(feeders.grow(FEEDERS)),
            Err(error) => run.abort(error),
        }
        drop(feeders);
        let mut ledger = Ledger::new(run, look_in);
        let mut drain_until: Option<Instant> = None;
        loop {
            match settled.recv_timeout(TICK) {
                Ok((batch, outcomes, matched)) => ledger.settle(&batch, outcomes, matched),
                Err(crossbeam_channel::RecvTimeoutError::Timeout) => {}
                Err(crossbeam_channel::RecvTimeoutError::Disconnected) => break,
            }
            let wanted = run.workers(workers);
            ledger.tick(wanted);
            if !run.stopped() {
                // There is one already, so these cannot fail.
                drop(working.grow(wanted));
                if run.delta.load(Ordering::Relaxed) {
                    drop(askers.grow(wanted));
                }
            }
            let all_done = run.open.load(Ordering::Acquire) == 0 || run.stopped();
            if run.fed.load(Ordering::Acquire) && all_done && run.in_flight() == 0 {
                break;
            }
            if run.cancel.is_cancelled() {
                run.queue.close();
                let until = *drain_until.get_or_insert_with(|| Instant::now() + DRAIN);
                if Instant::now() > until {
                    break;
                }
            }
        }
        drop(ledger);
    });
}

/// Ends the queue when it is dropped; a thread that panics while it holds this ends the run.
struct Closing<'a, 'b>(&'a Run<'b>);

impl Drop for Closing<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.aborted.store(true, Ordering::Relaxed);
        }
        self.0.queue.close();
    }
}

/// Held by the scan and by each feeder: with the last of them nothing more will be queued.
struct Fed<'a, 'b>(&'a Run<'b>);

impl Drop for Fed<'_, '_> {
    fn drop(&mut self) {
        self.0.fed.store(true, Ordering::Release);
    }
}

impl Run<'_> {
    /// What is known of the connections, if any.
    pub(crate) fn link(&self) -> Link {
        let (from, to) = (self.source.streams(), self.sink.streams());
        let (came, went) = (self.source.traffic(), self.sink.traffic());
        Link {
            streams: from + to,
            reads: from > 0,
            writes: to > 0,
            wire_bytes: came.wire_bytes + went.wire_bytes,
            matched_bytes: came.matched_bytes + went.matched_bytes,
            resumed_bytes: went.resumed_bytes,
            relayed_bytes: if to > 0 { came.wire_bytes } else { 0 },
            method: went.method.or(came.method),
            tcp: went.tcp.or(came.tcp),
        }
    }
}
