//! Keeps `sync` from emptying a destination by mistake. Two mistakes are caught: an empty source, as an unmounted file
//! system is one, and a deletion of more than half of the destination.

use haul_core::sync::Mutex;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use haul_core::{Entry, Error, ErrorKind, RelPath, Result, ScanBatch, ScanOptions, Side, Source, Totals};

use crate::chunks::chunks;
use crate::options::Delete;
use crate::path_list::{PATHS_PER_SCAN, are_dirs};

/// A destination of this many entries or fewer may lose more than half of them.
const FEW: u64 = 100;
/// A list of more batches of empty directories than this is no mistake.
const MOST_HELD: usize = 1000;

/// Watches a run that deletes. Without a view it allows everything.
#[derive(Default)]
pub(crate) struct DeleteGuard<'a> {
    /// The destination, opened for listing.
    view: Option<&'a dyn Source>,
    /// The root of the source, or the directories of a list. They wait until the scan finds anything else.
    held: Mutex<Vec<ScanBatch>>,
    /// The scan has found anything but the root.
    not_empty: AtomicBool,
    /// Files sent that replace a file.
    replaced: AtomicU64,
    /// Files sent that replace nothing.
    new: AtomicU64,
    /// Entries at the destination after the copy, without its root.
    listed: AtomicU64,
    refused: AtomicBool,
}

impl<'a> DeleteGuard<'a> {
    /// Watches the deletion, unless the user has set its limit.
    pub(crate) fn new(delete: Option<Delete>, view: Option<&'a dyn Source>) -> Self {
        let watched = delete.is_some_and(|delete| !delete.force && delete.max.is_none());
        Self { view: view.filter(|_| watched), ..Self::default() }
    }

    /// Whether batches are still held back.
    pub(crate) fn holds(&self) -> bool {
        self.view.is_some() && !self.not_empty.load(Ordering::Acquire)
    }

    /// Holds the directories back that the scan begins with (`starts`: the root, or those of a list) until it finds
    /// anything else. Returns the batches that may go on.
    pub(crate) fn hold(&self, mut batch: ScanBatch, starts: &HashSet<RelPath>) -> Vec<ScanBatch> {
        if !self.holds() {
            return vec![batch];
        }
        let mut held = self.held.lock();
        let is_start = |entry: &Entry| entry.is_dir() && starts.contains(&entry.path);
        let has_more = batch.excluded > 0 || held.len() > MOST_HELD || !batch.entries.iter().all(is_start);
        if has_more {
            self.not_empty.store(true, Ordering::Release);
        }
        if has_more || self.not_empty.load(Ordering::Acquire) {
            let mut free = std::mem::take(&mut *held);
            free.push(batch);
            return free;
        }
        let errors = std::mem::take(&mut batch.errors);
        held.push(batch);
        // An error is reported, but it does not prove that the source has an entry.
        if errors.is_empty() { Vec::new() } else { vec![ScanBatch { errors, ..ScanBatch::default() }] }
    }

    /// Returns the batches that are still held after the scan of the source. `listed`: the paths of a list, if any.
    ///
    /// # Errors
    /// `Usage` if the source is empty and the destination is not; the error of the listing if it fails.
    pub(crate) fn release(&self, scan: &ScanOptions, listed: Option<&[RelPath]>) -> Result<Vec<ScanBatch>> {
        let held = std::mem::take(&mut *self.held.lock());
        let Some(view) = self.view.filter(|_| !held.is_empty()) else { return Ok(held) };
        let mut count = 0;
        match listed {
            None => count = count_below(view, &scan.of_destination())?,
            Some(paths) => {
                for paths in chunks(paths, PATHS_PER_SCAN, |path| path.as_bytes().len()) {
                    let is_dir = are_dirs(view, paths)?;
                    let dirs = paths.iter().zip(is_dir).filter(|(_, is_dir)| *is_dir);
                    let starts: Vec<RelPath> = dirs.map(|(path, _)| path.clone()).collect();
                    if !starts.is_empty() {
                        let scan = ScanOptions { starts, enters_starts: true, ..scan.of_destination() };
                        count += count_below(view, &scan)?;
                    }
                }
            }
        }
        if count == 0 {
            return Ok(held);
        }
        let cause = format!(
            "the source is empty and the destination has {}: nothing was changed (if all of it is to go: --force-delete)",
            entries(count)
        );
        Err(Error::new(ErrorKind::Usage, Side::Local, "sync", cause))
    }

    /// Counts a file that is sent, or would be. `new`: it replaces nothing.
    pub(crate) fn count_sent(&self, new: bool) {
        let count = if new { &self.new } else { &self.replaced };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts entries at the destination after the copy.
    pub(crate) fn count_listed(&self, batch: &ScanBatch) {
        self.listed.fetch_add(without_root(batch), Ordering::Relaxed);
    }

    /// The reason to delete nothing, if more than half of the entries from before the run are extraneous.
    pub(crate) fn refuse(&self, totals: &Totals, dry_run: bool, extraneous: u64) -> Option<String> {
        self.view?;
        let [new, replaced, listed] =
            [&self.new, &self.replaced, &self.listed].map(|count| count.load(Ordering::Relaxed));
        // A dry run has made none of the listed entries.
        let made = if dry_run { 0 } else { new + totals.made + totals.linked };
        // Two lower bounds of the entries that stay from before the run. `made` may count entries that the listing
        // missed, and one of the compared entries may be the root.
        let stayed = listed.saturating_sub(extraneous).saturating_sub(made);
        let compared = (totals.same + totals.updated).saturating_sub(1) + replaced;
        let before = stayed.max(compared) + extraneous;
        if !is_too_many(extraneous, before) {
            return None;
        }
        self.refused.store(true, Ordering::Relaxed);
        Some(format!(
            "nothing was removed: {extraneous} of {} at the destination would have to go, more than half \
             (if that is meant: --max-delete {extraneous}, or --force-delete)",
            entries(before)
        ))
    }

    /// Whether a deletion was refused.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }
}

/// The entries that a scan finds below the directories that it begins with.
fn count_below(view: &dyn Source, scan: &ScanOptions) -> Result<u64> {
    let starts = starts_of(scan);
    let count = AtomicU64::new(0);
    view.scan(scan, &|batch| {
        let below = batch.entries.iter().filter(|entry| !starts.contains(&entry.path)).count();
        count.fetch_add(below as u64, Ordering::Relaxed);
        ControlFlow::Continue(())
    })?;
    Ok(count.into_inner())
}

/// The paths that a scan finds in any case, if they exist.
pub(crate) fn starts_of(scan: &ScanOptions) -> HashSet<RelPath> {
    let starts = scan.starts.iter().cloned();
    starts.chain(scan.above_starts()).chain([RelPath::root()]).collect()
}

/// Whether `extraneous` of `before` entries are more than `sync` deletes without an explicit option.
fn is_too_many(extraneous: u64, before: u64) -> bool {
    before > FEW && extraneous > before / 2
}

fn without_root(batch: &ScanBatch) -> u64 {
    batch.entries.iter().filter(|entry| !entry.path.is_root()).count() as u64
}

fn entries(count: u64) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_half_of_many_entries_is_too_many() {
        for (extraneous, before, too_many) in [
            (0, 0, false),
            (100, 100, false),
            (50, 101, false),
            (51, 101, true),
            (500, 1000, false),
            (501, 1000, true),
            (101, 101, true),
        ] {
            assert_eq!(is_too_many(extraneous, before), too_many, "{extraneous} of {before}");
        }
    }
}
