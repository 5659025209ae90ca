//! Scans the source and sends the entries to the feeders.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use crossbeam_channel::Sender;
use haul_core::{RelPath, ScanBatch, ScanOptions};

use crate::delete_guard::starts_of;
use crate::options::Paths;
use crate::path_list::{PATHS_PER_SCAN, PathList};
use crate::run::Run;
use crate::scan_budget;

/// Scans the whole source, or the paths of a list, into `found`. `listed` collects these paths.
pub(crate) fn scan(
    run: &Run<'_>,
    options: &ScanOptions,
    list: Option<Paths>,
    listed: &mut Option<PathList>,
    found: &Sender<ScanBatch>,
) {
    let is_listed = list.is_some();
    let scan = |options: &ScanOptions| {
        let starts = starts_of(options);
        let visit = |mut batch: ScanBatch| {
            if is_listed {
                // A list has further paths, and goes to a directory that keeps its own times and mode.
                batch.expected = None;
                batch.entries.retain(|entry| !entry.path.is_root() || options.starts.contains(&entry.path));
            }
            // That a listed path is missing does not make the source an empty one.
            if is_listed && batch.entries.is_empty() {
                return pass_on(run, batch, found);
            }
            let mut free = run.guard.hold(batch, &starts).into_iter();
            free.try_for_each(|batch| pass_on(run, batch, found))
        };
        if let Err(error) = run.source.scan(options, &visit) {
            run.scan_failed.store(true, Ordering::Relaxed);
            run.abort(error);
        }
    };
    let mut held = Vec::new();
    match list {
        None => scan(options),
        Some(mut list) => loop {
            let mut options = options.clone();
            options.starts.extend(next_paths(run, &mut list));
            if let Some(listed) = listed
                && let Err(error) = options.starts.iter().try_for_each(|path| listed.add(path))
            {
                run.abort(error);
            }
            if options.starts.is_empty() || run.stopped() {
                break;
            }
            scan(&options);
            if run.guard.holds() {
                held.extend(options.starts);
            }
        },
    }
    match run.guard.release(options, is_listed.then_some(&held)) {
        Ok(held) if !run.stopped() => {
            let _ended = held.into_iter().try_for_each(|batch| pass_on(run, batch, found));
        }
        Ok(_) => {}
        Err(error) => run.abort(error),
    }
    run.meter.set_scan_done(true);
}

/// Counts a batch and sends it to the feeders.
fn pass_on(run: &Run<'_>, batch: ScanBatch, found: &Sender<ScanBatch>) -> ControlFlow<()> {
    run.meter.count_found(&batch);
    if has_root(&batch) {
        run.expect_root();
    }
    if run.scan_budget.acquire(scan_budget::weight(&batch), || run.stopped()) {
        run.meter.outlook.set_scan_held();
    }
    if run.stopped() || found.send(batch).is_err() {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

/// Whether the root of the source is in the batch.
pub(crate) fn has_root(batch: &ScanBatch) -> bool {
    batch.entries.first().is_some_and(|entry| entry.path.is_root())
}

/// The next paths of a list; none at its end. Reports the lines that are no paths.
fn next_paths(run: &Run<'_>, list: &mut Paths) -> Vec<RelPath> {
    let mut paths = Vec::new();
    while paths.len() < PATHS_PER_SCAN
        && !run.stopped()
        && let Some(path) = list.next()
    {
        match path {
            Ok(path) => paths.push(path),
            Err(error) => {
                run.scan_failed.store(true, Ordering::Relaxed);
                run.meter.totals().found += 1;
                run.meter.fail(&RelPath::root(), error);
            }
        }
    }
    paths
}
