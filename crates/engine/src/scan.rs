//! Scans the source and sends what it finds to the feeders.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use crossbeam_channel::Sender;
use haul_core::{RelPath, ScanBatch, ScanOptions};

use crate::options::Paths;
use crate::run::Run;
use crate::scan_budget;

/// The number of paths of a list in one scan.
const PATHS_PER_SCAN: usize = 1000;

/// Scans the whole source, or the paths of a list, into `found`.
pub(crate) fn scan(run: &Run<'_>, options: &ScanOptions, list: Option<Paths>, found: &Sender<ScanBatch>) {
    let visit =
        |batch: ScanBatch| run.guard.hold(batch).into_iter().try_for_each(|batch| pass_on(run, batch, found));
    let scan = |options: &ScanOptions| {
        if let Err(error) = run.source.scan(options, &visit) {
            run.scan_failed.store(true, Ordering::Relaxed);
            run.abort(error);
        }
    };
    match list {
        None => scan(options),
        Some(mut list) => loop {
            let mut options = options.clone();
            options.starts.extend(next_paths(run, &mut list));
            if options.starts.is_empty() || run.stopped() {
                break;
            }
            scan(&options);
        },
    }
    match run.guard.release(options) {
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
    run.scan_budget.acquire(scan_budget::weight(&batch), || run.stopped());
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

/// The next paths of a list. Reports the lines that are no paths.
fn next_paths(run: &Run<'_>, list: &mut Paths) -> Vec<RelPath> {
    let mut paths = Vec::new();
    for path in list.take(PATHS_PER_SCAN) {
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
