//! One feeder thread: takes entries from the scan and offers them to the sink in bulk.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_channel::Receiver;
use haul_core::{Entry, Result, ScanBatch};

use crate::chunks::chunks;
use crate::offer::{offer, offer_from_index};
use crate::overlap;
use crate::run::Run;
use crate::scan::has_root;
use crate::scan_budget;

/// The number of entries in one request.
const PER_REQUEST: usize = 4096;
/// The weight of the entries that are taken from the scan at once, in bytes.
const MAX_WEIGHT: usize = 2 * 1024 * 1024;

/// Entries of the scan, as they may be offered.
#[derive(Default)]
struct ScannedEntries {
    /// Entries as they are now.
    current: Vec<Arc<Entry>>,
    /// Entries as an earlier run saw them.
    from_index: Vec<Arc<Entry>>,
}

/// Offers entries until the scan has ended.
pub(crate) fn feed(run: &Run<'_>, found: &Receiver<ScanBatch>) {
    while let Ok(batch) = found.recv() {
        let (batches, weight) = take_more(batch, found);
        let has_root = batches.iter().any(has_root);
        let mut scanned = ScannedEntries::default();
        for batch in batches {
            take_batch(run, batch, &mut scanned);
        }
        in_chunks(run, &scanned.current, offer);
        in_chunks(run, &scanned.from_index, offer_from_index);
        if has_root {
            run.root_answered();
        }
        run.scan_budget.release(weight);
    }
}

/// Takes more batches, as far as they have arrived and one request has space for them. Returns them with their weight.
fn take_more(first: ScanBatch, found: &Receiver<ScanBatch>) -> (Vec<ScanBatch>, usize) {
    let mut batches = vec![first];
    let (mut count, mut weight) = (0, 0);
    while let Some(last) = batches.last() {
        count += last.entries.len();
        weight += scan_budget::weight(last);
        if count >= PER_REQUEST || weight >= MAX_WEIGHT {
            break;
        }
        let Ok(more) = found.try_recv() else { break };
        batches.push(more);
    }
    (batches, weight)
}

/// Reports the errors of a batch, and keeps the entries to offer.
fn take_batch(run: &Run<'_>, batch: ScanBatch, scanned: &mut ScannedEntries) {
    for failure in batch.errors {
        run.scan_failed.store(true, Ordering::Relaxed);
        run.meter.fail(&failure.path, failure.error);
    }
    if run.stopped() {
        return;
    }
    let entries = if batch.told { &mut scanned.from_index } else { &mut scanned.current };
    for entry in overlap::own(run, batch.entries) {
        let Some(entry) = run.admit_scanned(entry) else { continue };
        let len = entry.len;
        match run.links.keep_further_name(entry) {
            Ok(Some(entry)) => entries.push(Arc::new(entry)),
            Ok(None) => run.meter.outlook.count_link(len),
            Err(error) => run.abort(error),
        }
    }
}

/// Offers entries in requests of a bounded size.
fn in_chunks(run: &Run<'_>, entries: &[Arc<Entry>], offer: fn(&Run<'_>, Vec<Arc<Entry>>) -> Result<()>) {
    for entries in chunks(entries, PER_REQUEST, |entry| entry.weight()) {
        if let Err(error) = offer(run, entries.to_vec()) {
            run.abort(error);
            break;
        }
    }
}
