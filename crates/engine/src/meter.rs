//! The counters of a run, its rate, and its events for the front end.

use haul_core::sync::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use haul_core::event::{Action, Content};
use haul_core::{
    Error, ErrorKind, Event, Failure, Limit, Method, Progress, RelPath, Reporter, ScanBatch, Tcp, Totals,
};

/// The rate is the average of this time.
const WINDOW: Duration = Duration::from_secs(5);

/// Counts what a run does, and reports to the front end.
pub(crate) struct Meter<'a> {
    reporter: &'a dyn Reporter,
    totals: Mutex<Totals>,
    began: Instant,
    scan_done: AtomicBool,
    /// Bytes of content that the sink needs.
    needed: AtomicU64,
    /// Nanoseconds of all workers by [`Activity`].
    spent: [AtomicU64; 3],
    samples: Mutex<VecDeque<Sample>>,
    /// The destination is full.
    full: AtomicBool,
    fatal: Mutex<Option<Error>>,
    corrupt: AtomicU64,
}

#[derive(Clone, Copy)]
struct Sample {
    at: Instant,
    bytes: u64,
    spent: [u64; 3],
}

/// The state of the connections of a run.
#[derive(Clone, Copy, Default)]
pub(crate) struct Connections {
    /// The number of open connections.
    pub(crate) streams: u32,
    /// Whether reading uses them.
    pub(crate) reads: bool,
    /// Whether writing uses them.
    pub(crate) writes: bool,
    /// Bytes of content on the wire.
    pub(crate) wire_bytes: u64,
    /// Bytes of content that one remote end did not have to send to another one.
    pub(crate) matched_bytes: u64,
    /// Bytes of content that an interrupted run had sent before.
    pub(crate) resumed_bytes: u64,
    /// The part of `wire_bytes` that came from one remote end to go on to another.
    pub(crate) relayed_bytes: u64,
    /// The compression method.
    pub(crate) method: Option<Method>,
    /// Statistics of the kernel.
    pub(crate) tcp: Option<Tcp>,
}

impl Connections {
    /// Adds the bytes of the connections to the totals.
    pub(crate) fn add_to(&self, totals: &mut Totals) {
        totals.wire_bytes += self.wire_bytes;
        totals.relayed_bytes += self.relayed_bytes;
        totals.matched(self.matched_bytes);
        totals.resumed(self.resumed_bytes);
    }
}

/// What a worker does.
#[derive(Clone, Copy)]
pub(crate) enum Activity {
    Waiting = 0,
    Reading = 1,
    Writing = 2,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(reporter: &'a dyn Reporter) -> Self {
        Self {
            reporter,
            totals: Mutex::default(),
            began: Instant::now(),
            scan_done: AtomicBool::new(false),
            needed: AtomicU64::new(0),
            spent: Default::default(),
            samples: Mutex::default(),
            full: AtomicBool::new(false),
            fatal: Mutex::new(None),
            corrupt: AtomicU64::new(0),
        }
    }

    pub(crate) fn totals(&self) -> MutexGuard<'_, Totals> {
        self.totals.lock()
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Counts the entries and errors of a scan batch. The lengths may come from a remote end, so their sum saturates.
    pub(crate) fn count_found(&self, batch: &ScanBatch) {
        let bytes = batch.entries.iter().fold(0_u64, |sum, entry| sum.saturating_add(entry.len));
        let mut totals = self.totals();
        totals.found += (batch.entries.len() + batch.errors.len()) as u64;
        totals.found_bytes = totals.found_bytes.saturating_add(bytes);
        totals.excluded = totals.excluded.saturating_add(batch.excluded);
    }

    pub(crate) fn set_scan_done(&self, done: bool) {
        self.scan_done.store(done, Ordering::Relaxed);
    }

    /// Counts content that the sink needs.
    pub(crate) fn count_needed(&self, bytes: u64) {
        self.needed.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts the time of a worker since `since`, and returns the current time.
    pub(crate) fn spend(&self, on: Activity, since: Instant) -> Instant {
        let now = Instant::now();
        let nanos = u64::try_from((now - since).as_nanos()).unwrap_or(u64::MAX);
        self.spent[on as usize].fetch_add(nanos, Ordering::Relaxed);
        now
    }

    /// The number of entries whose content did not verify.
    pub(crate) fn corrupt(&self) -> u64 {
        self.corrupt.load(Ordering::Relaxed)
    }

    /// Counts an entry whose content did not verify.
    pub(crate) fn count_corrupt(&self) {
        self.corrupt.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts and reports a failed entry.
    pub(crate) fn fail(&self, path: &RelPath, error: Error) {
        self.totals().failed += 1;
        if error.kind() == ErrorKind::Corrupt {
            self.count_corrupt();
        }
        self.reporter.event(&Event::Failed(&Failure { path: path.clone(), error }));
    }

    /// Reports a changed entry whose content the run has not verified.
    pub(crate) fn entry(&self, action: Action, path: &RelPath, len: u64) {
        self.file(action, path, len, Content::Unknown);
    }

    /// Reports a file.
    pub(crate) fn file(&self, action: Action, path: &RelPath, len: u64, content: Content<'_>) {
        self.reporter.event(&Event::Entry { action, path, len, content });
    }

    pub(crate) fn note(&self, text: &str) {
        self.reporter.event(&Event::Note(text));
    }

    pub(crate) fn warn(&self, text: &str) {
        self.reporter.event(&Event::Warning(text));
    }

    /// Sets whether the destination is full.
    pub(crate) fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::Relaxed);
    }

    /// Records the error that ends the run. The first one counts.
    pub(crate) fn abort(&self, error: Error) {
        self.fatal.lock().get_or_insert(error);
    }

    pub(crate) fn fatal(&self) -> Option<Error> {
        self.fatal.lock().clone()
    }

    /// Reports the progress.
    pub(crate) fn progress(&self, connections: &Connections) {
        let mut totals = *self.totals();
        connections.add_to(&mut totals);
        // A sink may find content only after it was counted as sent. Resumed content stays in the sum, so that the sum
        // does not fall.
        let done = totals.sent_bytes + totals.matched_bytes + totals.same_bytes + connections.resumed_bytes;
        let spent = [0, 1, 2].map(|at| self.spent[at].load(Ordering::Relaxed));
        let last = Sample { at: Instant::now(), bytes: done, spent };
        let first = self.add_sample(last);
        let over = (last.at - first.at).as_secs_f64();
        let rate = if over > 0.0 { last.bytes.saturating_sub(first.bytes) as f64 / over } else { 0.0 };
        let scan_done = self.scan_done.load(Ordering::Relaxed);
        let limit = self.limit([0, 1, 2].map(|at| last.spent[at] - first.spent[at]), scan_done, connections);
        let needed = self.needed.load(Ordering::Relaxed);
        let left = needed.saturating_sub(totals.sent_bytes + totals.matched_bytes + totals.resumed_bytes);
        let eta_seconds = (rate > 0.0 && (left > 0 || scan_done)).then(|| left as f64 / rate);
        let seconds = self.seconds();
        let Connections { streams, method, tcp, .. } = *connections;
        let progress =
            Progress { totals, scan_done, seconds, rate, streams, method, tcp, limit, eta_seconds };
        self.reporter.event(&Event::Progress(progress));
    }

    /// Keeps a sample, and returns the first one of the window.
    fn add_sample(&self, last: Sample) -> Sample {
        let mut samples = self.samples.lock();
        samples.push_back(last);
        while samples.len() > 2 && samples.front().is_some_and(|first| last.at - first.at > WINDOW) {
            samples.pop_front();
        }
        samples.front().copied().unwrap_or(last)
    }

    /// What limits the rate: the activity on which the workers spent the most time.
    fn limit(&self, spent: [u64; 3], scan_done: bool, connections: &Connections) -> Limit {
        let [waiting, reading, writing] = spent;
        if self.full.load(Ordering::Relaxed) {
            Limit::Room
        } else if waiting >= reading && waiting >= writing {
            if scan_done { Limit::Compare } else { Limit::Scan }
        } else if reading >= writing {
            if connections.reads { Limit::Link } else { Limit::Source }
        } else if connections.writes {
            Limit::Link
        } else {
            Limit::Destination
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Silent;

    impl Reporter for Silent {
        fn event(&self, _: &Event<'_>) {}
    }

    #[test]
    fn the_limit_is_the_activity_that_takes_the_most_time() {
        let meter = Meter::new(&Silent);
        let local = Connections::default();
        let remote = Connections { reads: true, writes: true, ..Connections::default() };
        assert_eq!(meter.limit([2, 1, 1], false, &local), Limit::Scan);
        assert_eq!(meter.limit([2, 1, 1], true, &local), Limit::Compare);
        assert_eq!(meter.limit([0, 2, 1], true, &local), Limit::Source);
        assert_eq!(meter.limit([0, 2, 1], true, &remote), Limit::Link);
        assert_eq!(meter.limit([0, 1, 2], true, &local), Limit::Destination);
        assert_eq!(meter.limit([0, 1, 2], true, &remote), Limit::Link);
        meter.set_full(true);
        assert_eq!(meter.limit([9, 0, 0], true, &local), Limit::Room);
    }
}
