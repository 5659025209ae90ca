//! The seconds that a deletion has left: first haul lists the destination, then it deletes.

use super::throughput::{Throughput, WorkAmount};

/// So many entries of the destination tell how long it takes to list one.
const LISTED: u64 = 100;

/// How far the listing of the destination and the deletion are.
#[derive(Default)]
pub(crate) struct Deletion {
    /// The second at which the listing began.
    since: f64,
    /// Entries of the destination that were listed.
    listed: u64,
    /// The extraneous entries among them.
    extra: u64,
    /// The entries that are not listed yet, as far as the listing can tell.
    unfound: Option<u64>,
    removals: Option<Removals>,
}

struct Removals {
    /// The entries that were deleted before, and those that are deleted when this ends.
    entries: std::ops::Range<u64>,
    /// The second at which the deletion began.
    since: f64,
    removed: Throughput,
}

impl Deletion {
    /// The listing begins at this second.
    pub(crate) fn begin(since: f64) -> Self {
        Self { since, ..Self::default() }
    }

    /// Counts entries of the destination that were listed, and those of them that will be deleted; `unfound` ones are
    /// expected.
    pub(crate) fn count_listed(&mut self, found: u64, extra: u64, unfound: Option<u64>) {
        self.listed += found;
        self.extra += extra;
        self.unfound = unfound;
    }

    /// From this second on, these entries are deleted, by their numbers.
    pub(crate) fn begin_removals(&mut self, entries: std::ops::Range<u64>, since: f64) {
        self.removals = Some(Removals { entries, since, removed: Throughput::default() });
    }

    /// From this second on, directories are deleted, each after those in it.
    pub(crate) fn begin_directories(&mut self, at: f64) {
        if let Some(removals) = &mut self.removals {
            removals.removed.change(at - removals.since);
        }
    }

    /// How many entries will have been deleted at the end, once that is known.
    pub(crate) fn to_remove(&self) -> Option<u64> {
        self.removals.as_ref().map(|removals| removals.entries.end)
    }

    pub(crate) fn is_listing(&self) -> bool {
        self.removals.is_none()
    }

    /// The entries that the listing still expects.
    pub(crate) fn unfound(&self) -> Option<u64> {
        self.unfound
    }

    /// The seconds left when `removed` entries are deleted. Until deletions were measured, one takes as long as an entry
    /// in the copy, or as it took to list it if there was no copy.
    pub(crate) fn seconds_left(&mut self, removed: u64, at: f64, in_copy: Option<f64>) -> Option<f64> {
        let listing = self.removals.as_ref().map_or(at, |removals| removals.since) - self.since;
        let to_list = (self.listed >= LISTED && listing > 0.0).then(|| listing / self.listed as f64);
        let per_entry = in_copy.or(to_list);
        let Some(Removals { entries, since, removed: measured }) = &mut self.removals else {
            let unfound = self.unfound.unwrap_or(0) as f64;
            // As many of the others are extraneous.
            let extra = self.extra as f64 * (1.0 + unfound / self.listed.max(1) as f64);
            return per_entry.map(|per_entry| extra * per_entry + unfound * to_list.unwrap_or(0.0));
        };
        let (passed, done) = (at - *since, removed.saturating_sub(entries.start));
        measured.observe(passed, WorkAmount::new(done, 0));
        let left = entries.end.saturating_sub(removed);
        match measured.speed(passed, 1.0) {
            Some(speed) => Some(speed.seconds(WorkAmount::new(left, 0))),
            None => per_entry.map(|per_entry| left as f64 * per_entry - passed),
        }
    }
}
