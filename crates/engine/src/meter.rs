//! The counters of a run, its rate, and its events for the front end.

use haul_core::sync::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use haul_core::event::{Action, Done};
use haul_core::{
    Changes, Entry, Error, ErrorKind, Event, Failure, Limit, Method, Pace, Phase, Progress, RelPath,
    Reporter, ScanBatch, Tcp, Totals,
};

use crate::bottleneck::{Bottleneck, Moment, Spent};
use crate::eta::WorkAmount;
use crate::outlook::{Eta, Now, Outlook, ReadingOutlook};

/// The rate is the average of this time.
const WINDOW: Duration = Duration::from_secs(5);
/// A rate that is about as high as the limit is held back by it.
const ABOUT: f64 = 0.85;
/// A limit holds the run back if threads wait for it in this share of the time.
const MOSTLY: f64 = 0.5;

/// Counts the work of a run, and reports to the front end.
pub(crate) struct Meter<'a> {
    reporter: &'a dyn Reporter,
    totals: Mutex<Totals>,
    began: Instant,
    scan_done: AtomicBool,
    /// The entries that the scan still expects.
    expected: Mutex<Option<u64>>,
    /// The rate limit.
    pace: Pace,
    pub(crate) bottleneck: Bottleneck,
    pub(crate) outlook: Outlook,
    /// Of a run that only reads: the entries and the bytes that were read.
    read: Mutex<WorkAmount>,
    /// The most bytes that were read, with those of files that are not complete: progress does not go back.
    checked_bytes: AtomicU64,
    reading: ReadingOutlook,
    /// The file of the last event.
    in_flight: Mutex<Option<RelPath>>,
    samples: Mutex<VecDeque<MeterSample>>,
    /// The destination is full.
    full: AtomicBool,
    fatal: Mutex<Option<Error>>,
    corrupt: AtomicU64,
}

#[derive(Clone, Copy)]
struct MeterSample {
    at: Instant,
    bytes: u64,
    spent: Spent,
}

/// The state of the connections of a run.
#[derive(Clone, Copy, Default)]
pub(crate) struct ConnectionStates {
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

impl ConnectionStates {
    /// Adds the bytes of the connections to the totals.
    pub(crate) fn add_to(&self, totals: &mut Totals) {
        totals.wire_bytes += self.wire_bytes;
        totals.relayed_bytes += self.relayed_bytes;
        totals.matched(self.matched_bytes);
        totals.resumed(self.resumed_bytes);
    }
}

impl<'a> Meter<'a> {
    pub(crate) fn new(reporter: &'a dyn Reporter) -> Self {
        Self::with_pace(reporter, Pace::default())
    }

    /// Of a run with this rate limit.
    pub(crate) fn with_pace(reporter: &'a dyn Reporter, pace: Pace) -> Self {
        Self {
            reporter,
            totals: Mutex::default(),
            began: Instant::now(),
            scan_done: AtomicBool::new(false),
            expected: Mutex::default(),
            pace,
            bottleneck: Bottleneck::new(),
            outlook: Outlook::default(),
            read: Mutex::default(),
            checked_bytes: AtomicU64::new(0),
            reading: ReadingOutlook::default(),
            in_flight: Mutex::default(),
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
        *self.expected.lock() = batch.expected;
    }

    pub(crate) fn set_scan_done(&self, done: bool) {
        self.scan_done.store(done, Ordering::Relaxed);
    }

    /// Counts entries that were read, and their bytes.
    pub(crate) fn count_read(&self, entries: usize, bytes: u64) {
        let mut read = self.read.lock();
        read.files += entries as f64;
        read.bytes += bytes as f64;
    }

    /// The next stage begins.
    pub(crate) fn begin_phase(&self, phase: Phase) {
        self.outlook.set_phase(phase, self.seconds());
    }

    /// Looks at the activities and limits of the run. `moment` returns the figures that the meter lacks.
    pub(crate) fn look(&self, moment: impl FnOnce() -> Moment) {
        self.bottleneck.look(|| Moment { by_rate: self.pace.is_waited_for(), ..moment() });
    }

    /// Reports the file that is being copied, if it is another one.
    pub(crate) fn show_in_flight(&self, path: Option<RelPath>) {
        let mut last = self.in_flight.lock();
        if let Some(path) = path.filter(|path| last.as_ref() != Some(path)) {
            self.reporter.event(&Event::InFlight(&path));
            *last = Some(path);
        }
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
        if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::BadPages) {
            self.count_corrupt();
        }
        self.reporter.event(&Event::Failed(&Failure { path: path.clone(), error }));
    }

    /// Reports an entry that is done.
    pub(crate) fn done(&self, path: &RelPath, done: Done<'_>) {
        self.reporter.event(&Event::Entry { path, done });
    }

    /// Reports an entry that an option excludes.
    pub(crate) fn left(&self, entry: &Entry) {
        self.done(&entry.path, Done::new(Action::Left, Changes::NONE, entry));
    }

    /// Reports an event.
    pub(crate) fn tell(&self, event: &Event<'_>) {
        self.reporter.event(event);
    }

    pub(crate) fn note(&self, text: &str) {
        self.reporter.event(&Event::Note(text));
    }

    pub(crate) fn warn(&self, text: &str) {
        self.reporter.event(&Event::Warning(text));
    }

    /// Tells that the destination is full; `then` is the rest of the sentence.
    pub(crate) fn tell_full(&self, error: &Error, then: &str) {
        self.reporter.event(&Event::Full { error, then });
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

    /// Reports the progress of a copy with so many open files.
    pub(crate) fn progress(&self, connections: &ConnectionStates, open_files: u64) {
        let totals = *self.totals();
        let wire_bytes = connections.wire_bytes.saturating_sub(connections.relayed_bytes);
        // The rate of a run that yields to others is a matter of the moment.
        let limit = self.pace.outbound.rate().filter(|_| !self.pace.yields.load(Ordering::Relaxed));
        let now = Now { open: open_files, limit, wire_bytes, ..self.now() };
        let eta = self.outlook.eta(&totals, now);
        self.report(connections, eta, None);
    }

    fn now(&self) -> Now {
        let scan_done = self.scan_done.load(Ordering::Relaxed);
        Now { at: self.seconds(), scan_done, expected: *self.expected.lock(), ..Now::default() }
    }

    /// Reports the progress of a run that only reads. So many bytes are read of entries that are not counted yet.
    pub(crate) fn progress_of_reading(&self, connections: &ConnectionStates, in_progress: u64) {
        let totals = *self.totals();
        let found = WorkAmount::new(totals.found, totals.found_bytes);
        let read = *self.read.lock();
        let now = (read.bytes as u64).saturating_add(in_progress).min(totals.found_bytes);
        let checked = self.checked_bytes.fetch_max(now, Ordering::Relaxed).max(now);
        let done = WorkAmount { bytes: checked as f64, ..read };
        self.report(connections, self.reading.eta(found, done, self.now()), Some(checked));
    }

    fn report(&self, connections: &ConnectionStates, eta: Eta, checked_bytes: Option<u64>) {
        let mut totals = *self.totals();
        connections.add_to(&mut totals);
        // A sink may find content only after it was counted as sent. Resumed content stays in the sum, so that the sum
        // does not fall.
        let settled = totals.matched_bytes + totals.cloned_bytes + totals.same_bytes;
        let copied = totals.sent_bytes + settled + connections.resumed_bytes;
        let done = checked_bytes.unwrap_or(copied);
        let last = MeterSample { at: Instant::now(), bytes: done, spent: self.bottleneck.spent() };
        let first = self.add_sample(last);
        let over = (last.at - first.at).as_secs_f64();
        let rate = if over > 0.0 { last.bytes.saturating_sub(first.bytes) as f64 / over } else { 0.0 };
        let scan_done = self.scan_done.load(Ordering::Relaxed);
        let limit = self.limit(last.spent.since(&first.spent), rate, scan_done, connections);
        let ConnectionStates { streams, method, tcp, .. } = *connections;
        self.reporter.event(&Event::Progress(Progress {
            totals,
            scan_done,
            seconds: self.seconds(),
            rate,
            streams,
            method,
            tcp,
            limit,
            phase: self.outlook.phase(),
            // Nobody knows when a full disk has space.
            eta_seconds: eta.seconds.filter(|_| limit != Limit::Room),
            eta_is_lower_bound: eta.is_lower_bound,
            eta_is_extrapolated: eta.is_extrapolated,
            checked_bytes,
            to_remove: self.outlook.to_remove(),
        }));
    }

    /// Keeps a sample, and returns the first one of the window.
    fn add_sample(&self, last: MeterSample) -> MeterSample {
        let mut samples = self.samples.lock();
        samples.push_back(last);
        while samples.len() > 2 && samples.front().is_some_and(|first| last.at - first.at > WINDOW) {
            samples.pop_front();
        }
        samples.front().copied().unwrap_or(last)
    }

    /// The cause that limits the rate: a limit for which threads wait, or else the activity on which the workers spent
    /// the most time.
    fn limit(&self, spent: Spent, rate: f64, scan_done: bool, connections: &ConnectionStates) -> Limit {
        let is_held = |seconds: f64| seconds > 0.0 && seconds >= spent.total * MOSTLY;
        // Other machines keep the limit too, and do not say whether they wait.
        let reaches = self.pace.outbound.rate().is_some_and(|limit| rate >= limit as f64 * ABOUT);
        if self.full.load(Ordering::Relaxed) {
            Limit::Room
        } else if reaches || is_held(spent.by_rate) && spent.by_rate >= spent.by_iops {
            if self.pace.yields.load(Ordering::Relaxed) { Limit::Nice } else { Limit::Rate }
        } else if is_held(spent.by_iops) {
            Limit::Iops
        } else if spent.waiting >= spent.reading && spent.waiting >= spent.writing {
            if scan_done { Limit::Compare } else { Limit::Scan }
        } else if spent.reading >= spent.writing {
            if connections.reads { Limit::Link } else { Limit::Source }
        } else if connections.writes {
            Limit::Link
        } else {
            Limit::Destination
        }
    }
}

/// Drops all events.
pub(crate) struct Silent;

impl Reporter for Silent {
    fn event(&self, _: &Event<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent([waiting, reading, writing]: [u8; 3]) -> Spent {
        let [waiting, reading, writing] = [waiting, reading, writing].map(f64::from);
        Spent { waiting, reading, writing, total: 5.0, ..Spent::default() }
    }

    #[test]
    fn the_limit_is_the_activity_that_takes_the_most_time() {
        let meter = Meter::new(&Silent);
        let local = ConnectionStates::default();
        let remote = ConnectionStates { reads: true, writes: true, ..ConnectionStates::default() };
        let limit = |parts, scan_done, connections| meter.limit(spent(parts), 1e6, scan_done, connections);
        assert_eq!(limit([2, 1, 1], false, &local), Limit::Scan);
        assert_eq!(limit([2, 1, 1], true, &local), Limit::Compare);
        assert_eq!(limit([0, 2, 1], true, &local), Limit::Source);
        assert_eq!(limit([0, 2, 1], true, &remote), Limit::Link);
        assert_eq!(limit([0, 1, 2], true, &local), Limit::Destination);
        assert_eq!(limit([0, 1, 2], true, &remote), Limit::Link);
        meter.set_full(true);
        assert_eq!(limit([9, 0, 0], true, &local), Limit::Room);
    }

    #[test]
    fn the_progress_of_reading_does_not_go_back() {
        #[derive(Default)]
        struct CheckedBytes(Mutex<Vec<u64>>);
        impl Reporter for CheckedBytes {
            fn event(&self, event: &Event<'_>) {
                if let Event::Progress(progress) = event {
                    self.0.lock().extend(progress.checked_bytes);
                }
            }
        }
        let seen = CheckedBytes::default();
        let meter = Meter::new(&seen);
        meter.totals().found_bytes = 100;
        // The second report comes between the end of a request and its count. A remote end may claim any number.
        for (counted, in_progress) in [(0, 40), (0, 0), (50, 0), (0, 20), (0, u64::MAX)] {
            meter.count_read(1, counted);
            meter.progress_of_reading(&ConnectionStates::default(), in_progress);
        }
        assert_eq!(*seen.0.lock(), [40, 40, 50, 70, 100]);
    }

    #[test]
    fn nobody_knows_how_long_a_disk_stays_full() {
        #[derive(Default)]
        struct TimesLeft(Mutex<Vec<Option<f64>>>);
        impl Reporter for TimesLeft {
            fn event(&self, event: &Event<'_>) {
                if let Event::Progress(progress) = event {
                    self.0.lock().push(progress.eta_seconds);
                }
            }
        }
        let seen = TimesLeft::default();
        let meter = Meter::new(&seen);
        for full in [false, true, false] {
            meter.set_full(full);
            meter.report(&ConnectionStates::default(), Eta { seconds: Some(5.0), ..Eta::default() }, None);
        }
        assert_eq!(*seen.0.lock(), [Some(5.0), None, Some(5.0)]);
    }

    #[test]
    fn a_limit_that_the_user_set_is_named_while_it_holds_the_run_back() {
        let pace = Pace::default();
        let meter = Meter::with_pace(&Silent, pace.clone());
        let limit = |by_rate, by_iops, rate| {
            let spent = Spent { by_rate, by_iops, ..spent([9, 0, 0]) };
            meter.limit(spent, rate, true, &ConnectionStates::default())
        };
        assert_eq!(limit(2.0, 2.0, 0.0), Limit::Compare, "it does not wait most of the time");
        assert_eq!(limit(0.0, 4.0, 0.0), Limit::Iops);
        assert_eq!(limit(5.0, 4.0, 0.0), Limit::Rate, "also before the first byte is done");
        pace.set(Some(1000));
        assert_eq!(limit(0.0, 0.0, 900.0), Limit::Rate, "the other machine keeps it");
        assert_eq!(limit(0.0, 0.0, 100.0), Limit::Compare);
        pace.yields.store(true, Ordering::Relaxed);
        assert_eq!(limit(5.0, 0.0, 0.0), Limit::Nice);
    }
}
