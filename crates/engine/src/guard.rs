//! What keeps `sync` from emptying a destination by mistake: a source that is empty, as an unmounted one is, and a
//! removal of more than half of what is there.

use haul_core::sync::Mutex;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use haul_core::{Error, ErrorKind, Result, ScanBatch, ScanOptions, Side, Source};

use crate::copy::{Delete, Run};

/// Destinations with so many entries or fewer may lose more than half of them.
const FEW: u64 = 100;

/// Watches a run that removes; without a view it lets everything pass.
#[derive(Default)]
pub(crate) struct Guard<'a> {
    /// The destination, to be listed.
    view: Option<&'a dyn Source>,
    /// The root of the source, which waits until the source has shown something else.
    held: Mutex<Vec<ScanBatch>>,
    /// The source has shown something else.
    seen: AtomicBool,
    /// Files that are sent: those that replace something, and those that do not.
    replaced: AtomicU64,
    new: AtomicU64,
    /// Entries that the destination has after the copy, without its root.
    listed: AtomicU64,
    refused: AtomicBool,
}

impl<'a> Guard<'a> {
    /// Watches what is removed, unless the person has said how much may go.
    pub(crate) fn new(delete: Option<Delete>, view: Option<&'a dyn Source>) -> Self {
        let watched = delete.is_some_and(|delete| !delete.force && delete.max.is_none());
        Self { view: view.filter(|_| watched), ..Self::default() }
    }

    /// Holds back the root of the source until something else is found; gives back what may go on now.
    pub(crate) fn hold(&self, mut batch: ScanBatch) -> Vec<ScanBatch> {
        if self.view.is_none() || self.seen.load(Ordering::Acquire) {
            return vec![batch];
        }
        let mut held = self.held.lock();
        let shows_more =
            batch.excluded > 0 || batch.entries.iter().any(|entry| !entry.path.is_root() || !entry.is_dir());
        if shows_more {
            self.seen.store(true, Ordering::Release);
        }
        if shows_more || self.seen.load(Ordering::Acquire) {
            let mut free = std::mem::take(&mut *held);
            free.push(batch);
            return free;
        }
        let errors = std::mem::take(&mut batch.errors);
        held.push(batch);
        // What could not be read is reported, but is no sign that there is something.
        if errors.is_empty() { Vec::new() } else { vec![ScanBatch { errors, ..ScanBatch::default() }] }
    }

    /// The scan of the source has ended: gives back the root, unless the source is empty and the destination is not.
    ///
    /// # Errors
    /// If that is so, or if the destination cannot be listed.
    pub(crate) fn release(&self, scan: &ScanOptions) -> Result<Vec<ScanBatch>> {
        let held = std::mem::take(&mut *self.held.lock());
        let Some(view) = self.view.filter(|_| !held.is_empty()) else { return Ok(held) };
        let count = AtomicU64::new(0);
        view.scan(&scan.whole_tree(), &|batch| {
            count.fetch_add(without_root(&batch), Ordering::Relaxed);
            ControlFlow::Continue(())
        })?;
        let count = count.into_inner();
        if count == 0 {
            return Ok(held);
        }
        let cause = format!(
            "the source is empty and the destination has {}: nothing was changed (if all of it is to go: --force-delete)",
            entries(count)
        );
        Err(Error::new(ErrorKind::Usage, Side::Local, "sync", cause))
    }

    /// A file is sent, or would be; `new` where it replaces nothing.
    pub(crate) fn sends(&self, new: bool) {
        let count = if new { &self.new } else { &self.replaced };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// This was found at the destination after the copy.
    pub(crate) fn lists(&self, batch: &ScanBatch) {
        self.listed.fetch_add(without_root(batch), Ordering::Relaxed);
    }

    /// Why so many entries are not removed, if that is more than half of what was there before the run.
    pub(crate) fn refuses(&self, run: &Run<'_>, extra: u64) -> Option<String> {
        self.view?;
        let totals = *run.meter.totals();
        let [new, replaced, listed] =
            [&self.new, &self.replaced, &self.listed].map(|count| count.load(Ordering::Relaxed));
        // A dry run has made nothing of what is listed.
        let made = if run.dry_run { 0 } else { new + totals.made + totals.linked };
        // Both are no more than what was there: what is listed may have been made, what was compared may have been the root.
        let stayed = listed.saturating_sub(extra).saturating_sub(made);
        let compared = (totals.same + totals.updated).saturating_sub(1) + replaced;
        let before = stayed.max(compared) + extra;
        if !is_too_much(extra, before) {
            return None;
        }
        self.refused.store(true, Ordering::Relaxed);
        Some(format!(
            "nothing was removed: {extra} of {} at the destination would have to go, more than half \
             (if that is meant: --max-delete {extra}, or --force-delete)",
            entries(before)
        ))
    }

    /// Whether a removal was refused.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }
}

/// Whether `extra` of `before` entries are more than are removed without a word of the person.
fn is_too_much(extra: u64, before: u64) -> bool {
    before > FEW && extra > before / 2
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
    fn more_than_half_of_many_is_too_much() {
        for (extra, before, too_much) in [
            (0, 0, false),
            (100, 100, false),
            (50, 101, false),
            (51, 101, true),
            (500, 1000, false),
            (501, 1000, true),
            (101, 101, true),
        ] {
            assert_eq!(is_too_much(extra, before), too_much, "{extra} of {before}");
        }
    }
}
