//! Digests of everything in a source.

use std::ops::ControlFlow;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use haul_core::{
    Digest, Entry, Error, ErrorKind, RelPath, Report, Reporter, Result, ScanBatch, ScanOptions, Side, Source,
};

use haul_threads::{ThreadPool, caught, spawn};

use crate::Cancel;
use crate::meter::{Link, Meter};

/// Questions to the source at a time, so that a link's latency does not hold up the hashing.
const ASKERS: usize = 4;
/// Files in one question at most.
const ASK: usize = 256;
/// Bytes of content in one question, unless one file has more.
const ASK_BYTES: u64 = 64 * 1024 * 1024;
/// Weight of the entries of one question, unless one has more: a path can be long.
const ASK_WEIGHT: usize = 1024 * 1024;
/// How often the front end hears of the progress.
const PROGRESS: Duration = Duration::from_millis(200);

/// One line of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashLine {
    /// The file, below the root; the root itself where the source is one file.
    pub path: RelPath,
    /// Its BLAKE3 digest.
    pub digest: Digest,
}

/// Hashes every file below the source's root. `line` gets each digest as it is known, in no particular order;
/// its error ends the run.
pub fn hash(
    source: &dyn Source,
    scan: &ScanOptions,
    line: &mut dyn FnMut(HashLine) -> Result<()>,
    reporter: &dyn Reporter,
    cancel: &Cancel,
) -> Report {
    let meter = Meter::new(reporter);
    let ask = |entries: Vec<Entry>, lines: &Sender<HashLine>| -> Result<()> {
        let files: Vec<Entry> = entries.into_iter().filter(Entry::is_file).collect();
        let paths: Vec<RelPath> = files.iter().map(|entry| entry.path.clone()).collect();
        for (entry, digest) in files.into_iter().zip(source.digest(&paths)?) {
            match digest {
                Ok(digest) => {
                    meter.totals().same(entry.len);
                    drop(lines.send(HashLine { path: entry.path, digest }));
                }
                Err(error) => meter.fail(&entry.path, error),
            }
        }
        Ok(())
    };
    each(&meter, source, scan, cancel, source.streams(), &ask, line);
    end(&meter, cancel)
}

/// The report of a run that only looked.
pub(crate) fn end(meter: &Meter<'_>, cancel: &Cancel) -> Report {
    Report {
        totals: *meter.totals(),
        corrupt: meter.corrupt(),
        fatal: meter.fatal(),
        interrupted: cancel.is_cancelled(),
        seconds: meter.seconds(),
        ..Report::default()
    }
}

/// Asks about entries and says what came out.
pub(crate) type Ask<'a, T> = &'a (dyn Fn(Vec<Entry>, &Sender<T>) -> Result<()> + Sync);

/// Scans `source`, calls `ask` with what was found from several threads, and hands what that says to `said` on the
/// calling thread.
pub(crate) fn each<T: Send>(
    meter: &Meter<'_>,
    source: &dyn Source,
    scan: &ScanOptions,
    cancel: &Cancel,
    streams: u32,
    ask: Ask<'_, T>,
    said: &mut dyn FnMut(T) -> Result<()>,
) {
    let (found_in, found) = bounded::<Vec<Entry>>(16);
    let (lines_in, lines) = bounded::<T>(1024);
    let stopped = || cancel.is_cancelled() || meter.fatal().is_some();
    let guarded = |work: &mut dyn FnMut()| {
        if let Err(error) = caught(work) {
            meter.abort(error);
        }
    };
    std::thread::scope(|scope| {
        let guarded = &guarded;
        let search = move || {
            let visit = |batch: ScanBatch| {
                let mut totals = meter.totals();
                totals.found += (batch.entries.len() + batch.errors.len()) as u64;
                let bytes = batch.entries.iter().fold(0_u64, |sum, entry| sum.saturating_add(entry.len));
                totals.found_bytes = totals.found_bytes.saturating_add(bytes);
                totals.excluded = totals.excluded.saturating_add(batch.excluded);
                drop(totals);
                for failure in batch.errors {
                    meter.fail(&failure.path, failure.error);
                }
                let sound = |entry: &Entry| match entry.check() {
                    Ok(()) => true,
                    Err(why) => {
                        let error = Error::new(ErrorKind::Unsupported, Side::Source, "take", why);
                        meter.fail(&entry.path, error.on(entry.path.as_bytes()));
                        false
                    }
                };
                for entries in cut(batch.entries.into_iter().filter(sound).collect()) {
                    if stopped() || found_in.send(entries).is_err() {
                        return ControlFlow::Break(());
                    }
                }
                ControlFlow::Continue(())
            };
            guarded(&mut || {
                if let Err(error) = source.scan(scan, &visit) {
                    meter.abort(error);
                }
            });
            meter.scan_is_done(true);
        };
        let asking = ThreadPool::new(scope, "ask", move |_| {
            guarded(&mut || {
                for entries in &found {
                    if stopped() {
                        continue;
                    }
                    if let Err(error) = ask(entries, &lines_in) {
                        meter.abort(error);
                    }
                }
            });
        });
        // One of each has to do where the system gives no more.
        match asking.grow(1).and_then(|()| spawn(scope, "scan", search)) {
            Ok(_) => drop(asking.grow(ASKERS)),
            Err(error) => meter.abort(error),
        }
        drop(asking);
        loop {
            match lines.recv_timeout(PROGRESS) {
                Ok(line) => {
                    if let Err(error) = said(line) {
                        meter.abort(error);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    meter.progress(&Link { streams, reads: streams > 0, ..Link::default() });
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
}

/// Cuts entries into questions of a reasonable size.
fn cut(entries: Vec<Entry>) -> Vec<Vec<Entry>> {
    let mut questions: Vec<Vec<Entry>> = Vec::new();
    let (mut bytes, mut weight) = (0_u64, 0);
    for entry in entries {
        bytes = bytes.saturating_add(entry.len);
        weight += entry.weight();
        match questions.last_mut() {
            Some(question) if question.len() < ASK && bytes <= ASK_BYTES && weight <= ASK_WEIGHT => {
                question.push(entry);
            }
            _ => {
                (bytes, weight) = (entry.len, entry.weight());
                questions.push(vec![entry]);
            }
        }
    }
    questions
}
