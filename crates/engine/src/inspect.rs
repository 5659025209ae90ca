//! A small pipeline that scans one end and asks about its entries from several threads, for runs that change nothing.

use std::ops::ControlFlow;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use haul_core::{Entry, Error, ErrorKind, RelPath, Report, Result, ScanBatch, ScanOptions, Side, Source};
use haul_spool::Spool;
use haul_threads::{ScopedThreads, caught, spawn};

use crate::cancel::Cancel;
use crate::hashing::Hashing;
use crate::meter::{ConnectionStates, Meter};
use crate::path_list::each_scan;

/// The number of requests at a time, so that the latency of a connection does not delay the hashing.
const ASKERS: usize = 4;
/// The number of files in one request, at most.
const PER_REQUEST: usize = 256;
/// The content of the files in one request, in bytes, unless one file has more.
const BYTES_PER_REQUEST: u64 = 64 * 1024 * 1024;
/// The weight of the entries in one request, unless one entry weighs more: a path can be long.
const WEIGHT_PER_REQUEST: usize = 1024 * 1024;
/// How often progress is reported.
const PROGRESS: Duration = Duration::from_millis(200);

/// One pipeline: the source, the options of its scan, and the meter that reports on it.
pub(crate) struct Inspection<'a> {
    pub(crate) meter: &'a Meter<'a>,
    pub(crate) source: &'a dyn Source,
    pub(crate) scan: &'a ScanOptions,
    /// Only these paths are scanned.
    pub(crate) listed: Option<&'a Spool<RelPath>>,
    pub(crate) cancel: &'a Cancel,
    /// The number of connections that progress reports.
    pub(crate) streams: u32,
    /// The hashing that progress includes.
    pub(crate) hashing: Option<&'a Hashing<'a>>,
}

/// Asks about entries and sends the results.
pub(crate) type Ask<'a, T> = &'a (dyn Fn(Vec<Entry>, &Sender<T>) -> Result<()> + Sync);

impl Inspection<'_> {
    /// Scans, calls `ask` with the entries from several threads, and calls `take` with each result on the calling
    /// thread.
    pub(crate) fn run<T: Send>(&self, ask: Ask<'_, T>, take: &mut dyn FnMut(T) -> Result<()>) {
        let (found_in, found) = bounded::<Vec<Entry>>(16);
        let (results_in, results) = bounded::<T>(1024);
        std::thread::scope(|scope| {
            let search = move || self.search(&found_in);
            let askers = ScopedThreads::new(scope, "ask", move |_| self.ask(&found, ask, &results_in));
            // A system that refuses more threads has to give one of each kind.
            match askers.grow(1).and_then(|()| spawn(scope, "scan", search)) {
                Ok(_) => drop(askers.grow(ASKERS)),
                Err(error) => self.meter.abort(error),
            }
            drop(askers);
            self.take_all(&results, take);
        });
    }

    /// The report of the run.
    pub(crate) fn report(meter: &Meter<'_>, cancel: &Cancel) -> Report {
        Report {
            totals: *meter.totals(),
            corrupt: meter.corrupt(),
            fatal: meter.fatal(),
            interrupted: cancel.is_cancelled(),
            seconds: meter.seconds(),
            ..Report::default()
        }
    }

    fn stopped(&self) -> bool {
        self.cancel.is_cancelled() || self.meter.fatal().is_some()
    }

    fn guarded(&self, work: impl FnOnce()) {
        if let Err(error) = caught(work) {
            self.meter.abort(error);
        }
    }

    /// The work of the scan thread.
    fn search(&self, found: &Sender<Vec<Entry>>) {
        self.guarded(|| {
            let scanned = match self.listed {
                None => self.scan(self.scan, found),
                Some(listed) => each_scan(listed, self.scan, |options| {
                    if self.stopped() { Ok(()) } else { self.scan(options, found) }
                }),
            };
            if let Err(error) = scanned {
                self.meter.abort(error);
            }
        });
        self.meter.set_scan_done(true);
    }

    /// One scan. The directories above its starts are left out.
    fn scan(&self, options: &ScanOptions, found: &Sender<Vec<Entry>>) -> Result<()> {
        let above = options.above_starts();
        let visit = |mut batch: ScanBatch| {
            batch.entries.retain(|entry| above.binary_search(&entry.path).is_err());
            // A list has further paths.
            batch.expected = batch.expected.filter(|_| self.listed.is_none());
            self.meter.count_found(&batch);
            for failure in batch.errors {
                self.meter.fail(&failure.path, failure.error);
            }
            batch.entries.retain(|entry| self.is_valid(entry));
            for entries in requests(batch.entries) {
                if self.stopped() || found.send(entries).is_err() {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        };
        self.source.scan(options, &visit)
    }

    fn is_valid(&self, entry: &Entry) -> bool {
        let Err(why) = entry.check() else { return true };
        let error = Error::new(ErrorKind::Unsupported, Side::Source, "take", why);
        self.meter.fail(&entry.path, error.on(entry.path.as_bytes()));
        false
    }

    /// The work of one thread that asks.
    fn ask<T>(&self, found: &Receiver<Vec<Entry>>, ask: Ask<'_, T>, results: &Sender<T>) {
        self.guarded(|| {
            for entries in found {
                if self.stopped() {
                    continue;
                }
                let (count, bytes) = (entries.len(), entries.iter().map(|entry| entry.len).sum());
                let asked = ask(entries, results);
                self.meter.count_read(count, bytes);
                if let Err(error) = asked {
                    self.meter.abort(error);
                }
            }
        });
    }

    fn take_all<T>(&self, results: &Receiver<T>, take: &mut dyn FnMut(T) -> Result<()>) {
        loop {
            match results.recv_timeout(PROGRESS) {
                Ok(result) => {
                    if let Err(error) = take(result) {
                        self.meter.abort(error);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let in_progress = self.hashing.map_or(0, Hashing::in_progress);
                    self.meter.progress_of_reading(&reading(self.streams), in_progress);
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    }
}

/// Connections that are only read from.
pub(crate) fn reading(streams: u32) -> ConnectionStates {
    ConnectionStates { streams, reads: streams > 0, ..ConnectionStates::default() }
}

/// Cuts entries into requests of a bounded size.
fn requests(entries: Vec<Entry>) -> Vec<Vec<Entry>> {
    let mut requests: Vec<Vec<Entry>> = Vec::new();
    let (mut bytes, mut weight) = (0_u64, 0);
    for entry in entries {
        bytes = bytes.saturating_add(entry.len);
        weight += entry.weight();
        match requests.last_mut() {
            Some(request)
                if request.len() < PER_REQUEST
                    && bytes <= BYTES_PER_REQUEST
                    && weight <= WEIGHT_PER_REQUEST =>
            {
                request.push(entry);
            }
            _ => {
                (bytes, weight) = (entry.len, entry.weight());
                requests.push(vec![entry]);
            }
        }
    }
    requests
}
