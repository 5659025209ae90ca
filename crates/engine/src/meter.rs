//! Counts of a run, and how it is going.

use haul_core::sync::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use haul_core::event::Action;
use haul_core::{Error, ErrorKind, Event, Failure, Limit, Method, Progress, RelPath, Reporter, Tcp, Totals};

/// The rate is that of so much time past.
const WINDOW: Duration = Duration::from_secs(5);

/// The one place where a run counts, and speaks to the front end.
pub(crate) struct Meter<'a> {
    reporter: &'a dyn Reporter,
    totals: Mutex<Totals>,
    began: Instant,
    scan_done: AtomicBool,
    /// Bytes of content that were found to be needed.
    needed: AtomicU64,
    /// Nanoseconds that workers spent waiting for work, reading, writing.
    spent: [AtomicU64; 3],
    past: Mutex<VecDeque<Sample>>,
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

/// The connections of a run, as far as it has any.
#[derive(Clone, Copy, Default)]
pub(crate) struct Link {
    /// Those that are up.
    pub(crate) streams: u32,
    /// Whether reading goes over them.
    pub(crate) reads: bool,
    /// Whether writing goes over them.
    pub(crate) writes: bool,
    /// Bytes of content that went over them.
    pub(crate) wire_bytes: u64,
    /// Bytes of content that did not have to go from one remote end to another one.
    pub(crate) matched_bytes: u64,
    /// Bytes of content that did not have to go because an interrupted run had sent them.
    pub(crate) resumed_bytes: u64,
    /// Of `wire_bytes`, those that came here from one remote end to go on to another.
    pub(crate) relayed_bytes: u64,
    /// How content is packed on its way.
    pub(crate) method: Option<Method>,
    /// What the kernel knows of them.
    pub(crate) tcp: Option<Tcp>,
}

/// What a worker spends its time on.
#[derive(Clone, Copy)]
pub(crate) enum Spent {
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
            past: Mutex::default(),
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

    pub(crate) fn scan_is_done(&self, done: bool) {
        self.scan_done.store(done, Ordering::Relaxed);
    }

    pub(crate) fn needs(&self, bytes: u64) {
        self.needed.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn spent(&self, on: Spent, since: Instant) -> Instant {
        let now = Instant::now();
        let nanos = u64::try_from((now - since).as_nanos()).unwrap_or(u64::MAX);
        self.spent[on as usize].fetch_add(nanos, Ordering::Relaxed);
        now
    }

    pub(crate) fn corrupt(&self) -> u64 {
        self.corrupt.load(Ordering::Relaxed)
    }

    /// Names one more entry whose content did not verify.
    pub(crate) fn count_corrupt(&self) {
        self.corrupt.fetch_add(1, Ordering::Relaxed);
    }

    /// One entry failed.
    pub(crate) fn fail(&self, path: &RelPath, error: Error) {
        self.totals().failed += 1;
        if error.kind() == ErrorKind::Corrupt {
            self.count_corrupt();
        }
        self.reporter.event(&Event::Failed(&Failure { path: path.clone(), error }));
    }

    /// One entry was dealt with.
    pub(crate) fn entry(&self, action: Action, path: &RelPath, len: u64) {
        self.reporter.event(&Event::Entry { action, path, len });
    }

    /// Something that a person should know.
    pub(crate) fn note(&self, text: &str) {
        self.reporter.event(&Event::Note(text));
    }

    /// Something stands in the way.
    pub(crate) fn warn(&self, text: &str) {
        self.reporter.event(&Event::Warning(text));
    }

    /// The destination is full, or is not any more.
    pub(crate) fn is_full(&self, full: bool) {
        self.full.store(full, Ordering::Relaxed);
    }

    /// What ends the run; the first word counts.
    pub(crate) fn abort(&self, error: Error) {
        self.fatal.lock().get_or_insert(error);
    }

    pub(crate) fn fatal(&self) -> Option<Error> {
        self.fatal.lock().clone()
    }

    /// Tells the front end where the run stands.
    pub(crate) fn progress(&self, link: &Link) {
        let mut totals = *self.totals();
        totals.wire_bytes += link.wire_bytes;
        totals.relayed_bytes += link.relayed_bytes;
        totals.matched(link.matched_bytes);
        totals.resumed(link.resumed_bytes);
        // What a sink finds there counted as sent until then: it must not count as undone.
        let done = totals.sent_bytes + totals.matched_bytes + totals.same_bytes + link.resumed_bytes;
        let spent = [0, 1, 2].map(|at| self.spent[at].load(Ordering::Relaxed));
        let sample = Sample { at: Instant::now(), bytes: done, spent };
        let mut past = self.past.lock();
        past.push_back(sample);
        while past.len() > 2 && past.front().is_some_and(|first| sample.at - first.at > WINDOW) {
            past.pop_front();
        }
        let first = past.front().copied().unwrap_or(sample);
        drop(past);
        let over = (sample.at - first.at).as_secs_f64();
        let rate = if over > 0.0 { sample.bytes.saturating_sub(first.bytes) as f64 / over } else { 0.0 };
        let scan_done = self.scan_done.load(Ordering::Relaxed);
        let [waiting, reading, writing] = [0, 1, 2].map(|at| sample.spent[at] - first.spent[at]);
        let limit = if self.full.load(Ordering::Relaxed) {
            Limit::Room
        } else if waiting >= reading && waiting >= writing {
            if scan_done { Limit::Compare } else { Limit::Scan }
        } else if reading >= writing {
            if link.reads { Limit::Link } else { Limit::Source }
        } else if link.writes {
            Limit::Link
        } else {
            Limit::Destination
        };
        let needed = self.needed.load(Ordering::Relaxed);
        let left = needed.saturating_sub(totals.sent_bytes + totals.matched_bytes + totals.resumed_bytes);
        let eta_seconds = (rate > 0.0 && (left > 0 || scan_done)).then(|| left as f64 / rate);
        let seconds = self.seconds();
        let Link { streams, method, tcp, .. } = *link;
        let progress =
            Progress { totals, scan_done, seconds, rate, streams, method, tcp, limit, eta_seconds };
        self.reporter.event(&Event::Progress(progress));
    }
}
