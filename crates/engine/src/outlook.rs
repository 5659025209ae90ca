//! Estimates the time that a run has left, from the work that is done and the work that is left, stage by stage.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use haul_core::sync::Mutex;
use haul_core::{Batch, Phase, Totals};

use crate::eta::{
    Deletion, Estimator, FileCost, InProgress, Standing, Throughput, WorkAmount, floor, is_sane,
};
use crate::queue::is_large;

/// The rates of content and of wire bytes differ by at most this factor.
const MAX_COMPRESSION: f64 = 20.0;

/// The figures that the estimate needs besides the totals.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Now {
    /// Seconds since the run began.
    pub(crate) at: f64,
    /// Files that were queued and are neither committed nor failed.
    pub(crate) open: u64,
    pub(crate) scan_done: bool,
    /// The entries that the scan has not found yet, as far as it can tell.
    pub(crate) expected: Option<u64>,
    /// The limit of bytes on the wire in a second.
    pub(crate) limit: Option<u64>,
    /// Bytes of content on the wire, once for each.
    pub(crate) wire_bytes: u64,
}

impl Now {
    /// The entries that the scan still expects, if it goes on.
    fn unfound(&self) -> u64 {
        self.expected.filter(|_| !self.scan_done).unwrap_or(0)
    }
}

/// The estimate of the seconds left.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Eta {
    pub(crate) seconds: Option<f64>,
    /// Work may be left that is not known yet.
    pub(crate) is_lower_bound: bool,
    /// It includes entries that the scan has not found yet.
    pub(crate) is_extrapolated: bool,
}

impl Eta {
    /// At `at` seconds; `more` follows that cannot be estimated.
    fn new(seconds: Option<f64>, more: bool, at: f64, scan_done: bool, expected: Option<u64>) -> Self {
        let least = floor(at);
        // When the estimate has passed, or is as good as nothing during the scan, it says nothing about a run that goes on.
        let seconds = seconds.filter(|seconds| *seconds > if scan_done { 0.0 } else { least });
        Self {
            seconds: seconds.map(|seconds| seconds.max(least)).filter(|seconds| is_sane(*seconds)),
            is_lower_bound: more || !scan_done && expected.is_none(),
            is_extrapolated: !scan_done && expected.is_some(),
        }
    }
}

/// Counts the files, directories and links that the sink needs, and estimates the seconds left.
#[derive(Default)]
pub(crate) struct Outlook {
    needed_files: AtomicU64,
    needed_bytes: AtomicU64,
    /// The bytes of the files that were compared and need content.
    answered_bytes: AtomicU64,
    /// The directories that get their metadata at the end.
    directories: AtomicU64,
    links: AtomicU64,
    link_bytes: AtomicU64,
    /// The copy has held the scan back.
    scan_held: AtomicBool,
    /// More parts follow, which cannot be estimated yet.
    parts_follow: AtomicBool,
    /// A deletion follows the copy.
    deletes: AtomicBool,
    file_cost: Mutex<FileCost>,
    in_progress: Mutex<InProgress>,
    state: Mutex<OutlookState>,
}

#[derive(Default)]
struct OutlookState {
    phase: Phase,
    /// The second at which the stage began.
    since: f64,
    estimator: Estimator,
    /// The estimated seconds of the last stage.
    finish: f64,
    /// The seconds for an entry in the copy, if they were measured.
    per_entry: Option<f64>,
    deletion: Deletion,
    is_over: bool,
}

impl Outlook {
    /// Counts a file of which the sink needs content, without the bytes that the sink has.
    pub(crate) fn count_needed(&self, len: u64, resumed: u64) {
        self.needed_files.fetch_add(1, Ordering::Relaxed);
        self.needed_bytes.fetch_add(len.saturating_sub(resumed), Ordering::Relaxed);
        self.answered_bytes.fetch_add(len, Ordering::Relaxed);
    }

    /// Content of a failed file that is not sent any more.
    pub(crate) fn drop_needed(&self, bytes: u64) {
        let drop = |needed: u64| Some(needed.saturating_sub(bytes));
        let _ = self.needed_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, drop);
    }

    /// Counts a directory that gets its metadata at the end.
    pub(crate) fn count_directory(&self) {
        self.directories.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a further name of a file, which is linked later.
    pub(crate) fn count_link(&self, len: u64) {
        self.links.fetch_add(1, Ordering::Relaxed);
        self.link_bytes.fetch_add(len, Ordering::Relaxed);
    }

    /// From now on the scan is only as fast as the copy.
    pub(crate) fn set_scan_held(&self) {
        self.scan_held.store(true, Ordering::Relaxed);
    }

    /// A worker took a batch.
    pub(crate) fn begin_batch(&self, batch: &Arc<Batch>, at: f64) {
        self.in_progress.lock().begin(number(batch), work(batch), at);
    }

    /// The worker has done its part of the batch, and took this long.
    pub(crate) fn sent_batch(&self, batch: &Arc<Batch>, seconds: f64, at: f64) {
        self.in_progress.lock().sent(number(batch), at);
        self.file_cost.lock().add(work(batch), seconds);
    }

    /// A batch has its outcome.
    pub(crate) fn end_batch(&self, batch: &Arc<Batch>, at: f64) {
        self.in_progress.lock().end(number(batch), at);
    }

    /// The stage begins at this second.
    pub(crate) fn set_phase(&self, phase: Phase, at: f64) {
        let mut state = self.state.lock();
        (state.phase, state.since, state.is_over) = (phase, at, false);
        state.deletion = Deletion::begin(at);
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state.lock().phase
    }

    /// Whether more parts follow this one, and whether a deletion follows its copy. Neither can be estimated yet.
    pub(crate) fn set_more_follows(&self, parts: bool, deletion: bool) {
        self.parts_follow.store(parts, Ordering::Relaxed);
        self.deletes.store(deletion, Ordering::Relaxed);
    }

    /// Counts entries of the destination that were listed, and those of them that will be deleted; `unfound` ones are
    /// expected.
    pub(crate) fn count_listed(&self, found: usize, extra: usize, unfound: Option<u64>) {
        self.state.lock().deletion.count_listed(found as u64, extra as u64, unfound);
    }

    /// From this second on, these entries are deleted, by their numbers.
    pub(crate) fn set_removals(&self, entries: std::ops::Range<u64>, since: f64) {
        self.state.lock().deletion.begin_removals(entries, since);
    }

    /// How many entries will have been deleted at the end, once that is known.
    pub(crate) fn to_remove(&self) -> Option<u64> {
        self.state.lock().deletion.to_remove()
    }

    /// From this second on, directories are deleted, each after those in it.
    pub(crate) fn set_removes_directories(&self, at: f64) {
        self.state.lock().deletion.begin_directories(at);
    }

    /// Nothing is left.
    pub(crate) fn set_over(&self) {
        self.state.lock().is_over = true;
    }

    /// Estimates the seconds left. `totals` are those of the ledger, without the figures of the connections.
    pub(crate) fn eta(&self, totals: &Totals, now: Now) -> Eta {
        let mut state = self.state.lock();
        if state.is_over {
            return Eta { seconds: Some(0.0), ..Eta::default() };
        }
        let passed = (now.at - state.since).max(0.0);
        let more = self.parts_follow.load(Ordering::Relaxed);
        let is_listing = state.phase == Phase::Delete && state.deletion.is_listing();
        let (seconds, more) = match state.phase {
            Phase::Copy | Phase::Link => {
                let file_cost = self.file_cost.lock();
                let standing = self.standing(totals, now, &file_cost);
                state.estimator.observe(&standing);
                state.finish = state.estimator.seconds_to_finish(&standing, &file_cost);
                state.per_entry = state.estimator.seconds_per_entry(&file_cost);
                let seconds = state.estimator.seconds_left(&standing, &file_cost);
                let more = more || self.deletes.load(Ordering::Relaxed);
                (seconds.map(|seconds| seconds + state.finish), more)
            }
            Phase::Delete => {
                let (per_entry, finish) = (state.per_entry, state.finish);
                let seconds = state.deletion.seconds_left(totals.removed, now.at, per_entry);
                let more = more || is_listing && state.deletion.unfound().is_none();
                (seconds.map(|seconds| seconds + finish), more)
            }
            Phase::Finish => (Some(state.finish - passed), true),
        };
        // The listing is a scan too: a few entries that it has found tell nothing.
        let expected = if is_listing { state.deletion.unfound() } else { now.expected };
        Eta::new(seconds, more, now.at, now.scan_done && !is_listing, expected)
    }

    fn standing(&self, totals: &Totals, now: Now, file_cost: &FileCost) -> Standing {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let compared = totals.settled() + now.open;
        let needed = WorkAmount::new(get(&self.needed_files), get(&self.needed_bytes));
        let sent = totals.sent_bytes + totals.matched_bytes;
        let done = if now.open == 0 {
            needed
        } else {
            let files = get(&self.needed_files).saturating_sub(now.open);
            let settled = WorkAmount { bytes: (sent as f64).min(needed.bytes), ..WorkAmount::new(files, 0) };
            settled.with(self.in_progress.lock().done(now.at, file_cost))
        };
        let compression = sent as f64 / now.wire_bytes.max(1) as f64;
        let compression = if now.wire_bytes == 0 { 1.0 } else { compression.clamp(1.0, MAX_COMPRESSION) };
        let found = WorkAmount::new(totals.found, totals.found_bytes).extrapolated(now.unfound());
        Standing {
            at: now.at,
            is_copying: now.open > 0,
            scan_done: now.scan_done,
            scan_held: self.scan_held.load(Ordering::Relaxed),
            found,
            linked_later: WorkAmount::new(get(&self.links), get(&self.link_bytes)),
            compared: WorkAmount::new(compared, get(&self.answered_bytes).saturating_add(totals.same_bytes)),
            needed,
            done,
            directories: get(&self.directories) as f64 * (found.files / compared.max(1) as f64).max(1.0),
            limit: now.limit.map(|limit| limit as f64 * compression),
        }
    }
}

/// A number for a batch that no other one has at the same time.
fn number(batch: &Arc<Batch>) -> usize {
    Arc::as_ptr(batch).addr()
}

/// The work of a batch. A large file is counted by its bytes alone.
fn work(batch: &Batch) -> WorkAmount {
    let files = batch.entries.iter().filter(|entry| !is_large(entry)).count();
    WorkAmount::new(files as u64, batch.iter().map(|(entry, slice)| slice.len_in(entry.len)).sum())
}

/// The estimate of a run that reads content and changes nothing.
#[derive(Default)]
pub(crate) struct ReadingOutlook(Mutex<Throughput>);

impl ReadingOutlook {
    /// Estimates the seconds left, with `done` of `found`, in files and bytes.
    pub(crate) fn eta(&self, found: WorkAmount, done: WorkAmount, now: Now) -> Eta {
        let mut throughput = self.0.lock();
        throughput.observe(now.at, done);
        let speed = throughput.speed(now.at, FileCost::default().bytes());
        let left = found.extrapolated(now.unfound()).without(done);
        let seconds = speed.map(|speed| speed.seconds(left));
        Eta::new(seconds, false, now.at, now.scan_done, now.expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(found: u64, settled: u64) -> Totals {
        Totals { found, same: settled, ..Totals::default() }
    }

    #[test]
    fn an_estimate_is_a_lower_bound_until_all_is_known() {
        let outlook = Outlook::default();
        let mut now = Now { at: 0.0, ..Now::default() };
        for step in 1..50 {
            now.at = f64::from(step);
            outlook.eta(&totals(10_000, step as u64 * 100), now);
        }
        let eta = outlook.eta(&totals(10_000, 4900), now);
        assert!(eta.is_lower_bound && (45.0..57.0).contains(&eta.seconds.unwrap()), "{eta:?}");
        assert_eq!(outlook.eta(&totals(4900, 4900), now).seconds, None, "the scan may find more");
        now.scan_done = true;
        assert!(!outlook.eta(&totals(10_000, 4900), now).is_lower_bound);
        outlook.set_more_follows(false, true);
        assert!(outlook.eta(&totals(10_000, 4900), now).is_lower_bound, "a deletion follows");
    }

    #[test]
    fn entries_that_the_scan_expects_count_as_the_mean_of_those_found() {
        let outlook = Outlook::default();
        let mut now = Now { expected: Some(5000), ..Now::default() };
        for second in 1..=50 {
            now.at = f64::from(second);
            outlook.eta(&totals(5000, second as u64 * 100), now);
        }
        let eta = outlook.eta(&totals(5000, 5000), now);
        assert!(eta.is_extrapolated && !eta.is_lower_bound, "{eta:?}");
        assert!((45.0..57.0).contains(&eta.seconds.unwrap()), "{eta:?}");
        for expected in [u64::MAX, 1 << 60] {
            now.expected = Some(expected);
            assert_eq!(outlook.eta(&totals(5000, 5000), now).seconds, None, "no run takes so long");
        }
        now.scan_done = true;
        let eta = outlook.eta(&totals(5000, 5000), now);
        assert_eq!(eta, Eta::default(), "all that is known is done");
    }

    #[test]
    fn a_deletion_is_known_once_it_is_counted() {
        let outlook = Outlook::default();
        outlook.set_phase(Phase::Delete, 10.0);
        let mut now = Now { at: 12.0, scan_done: true, ..Now::default() };
        assert_eq!(outlook.eta(&totals(10, 10), now).seconds, None);
        // Another part has deleted 500.
        outlook.set_removals(500..1500, 12.0);
        let mut removed = 500;
        let mut run = |seconds: u64, each: u64| {
            let mut eta = Eta::default();
            for _ in 0..seconds {
                (now.at, removed) = (now.at + 1.0, removed + each);
                eta = outlook.eta(&Totals { removed, ..totals(10, 10) }, now);
            }
            eta.seconds.unwrap()
        };
        let left = run(20, 10);
        assert!((75.0..85.0).contains(&left), "{left}");
        outlook.set_removes_directories(32.0);
        let left = run(10, 1);
        assert!((750.0..820.0).contains(&left), "directories take longer: {left}");
    }

    #[test]
    fn a_deletion_takes_as_long_as_a_copy_until_it_is_measured() {
        let outlook = Outlook::default();
        let mut now = Now { scan_done: true, ..Now::default() };
        for second in 1..=10 {
            now.at = f64::from(second);
            outlook.eta(&totals(100, second as u64 * 10), now);
        }
        outlook.set_phase(Phase::Delete, now.at);
        outlook.count_listed(1, 1, None);
        assert_eq!(outlook.eta(&totals(100, 100), now).seconds, None, "one of many");
        outlook.count_listed(299, 299, None);
        let listing = outlook.eta(&totals(100, 100), now);
        assert!(listing.is_lower_bound && (28.0..32.0).contains(&listing.seconds.unwrap()), "{listing:?}");
        outlook.set_removals(0..500, now.at);
        let known = outlook.eta(&totals(100, 100), now);
        assert!(!known.is_lower_bound && (47.0..53.0).contains(&known.seconds.unwrap()), "{known:?}");
    }

    #[test]
    fn a_deletion_without_a_copy_takes_as_long_as_the_listing() {
        let outlook = Outlook::default();
        outlook.set_phase(Phase::Delete, 10.0);
        let mut now = Now { at: 20.0, scan_done: true, ..Now::default() };
        outlook.count_listed(99, 99, None);
        assert_eq!(outlook.eta(&totals(1, 1), now).seconds, None, "a few tell nothing");
        outlook.count_listed(901, 401, None);
        let listing = outlook.eta(&totals(1, 1), now);
        assert!(listing.is_lower_bound && (4.5..5.5).contains(&listing.seconds.unwrap()), "{listing:?}");
        outlook.count_listed(0, 0, Some(1000));
        let listing = outlook.eta(&totals(1, 1), now);
        assert!(!listing.is_lower_bound && listing.is_extrapolated, "{listing:?}");
        assert!(
            (19.5..20.5).contains(&listing.seconds.unwrap()),
            "as long again, and 1000 of 2000: {listing:?}"
        );
        outlook.set_removals(0..1000, now.at);
        now.at = 20.1;
        let known = outlook.eta(&totals(1, 1), now);
        assert!(!known.is_lower_bound && (9.5..10.5).contains(&known.seconds.unwrap()), "{known:?}");
        now.at = 25.0;
        let later = outlook.eta(&totals(1, 1), now).seconds.unwrap();
        assert!((4.5..5.5).contains(&later), "the first request may take long: {later}");
    }

    #[test]
    fn directories_count_for_the_end_whether_made_or_not() {
        let outlook = Outlook::default();
        (0..1000).for_each(|_| outlook.count_directory());
        let mut now = Now { scan_done: true, ..Now::default() };
        for second in 1..=10 {
            now.at = f64::from(second);
            outlook.eta(&totals(1000, second as u64 * 100), now);
        }
        let eta = outlook.eta(&totals(1000, 1000), now);
        assert!((4.0..6.0).contains(&eta.seconds.unwrap()), "half of what it took to compare: {eta:?}");
    }

    #[test]
    fn only_the_end_is_zero() {
        let outlook = Outlook::default();
        outlook.set_phase(Phase::Finish, 10.0);
        outlook.state.lock().finish = 5.0;
        let mut now = Now { scan_done: true, ..Now::default() };
        for (at, seconds) in [(12.0, Some(3.0)), (14.5, Some(1.0)), (15.0, None), (99.0, None)] {
            now.at = at;
            assert_eq!(
                outlook.eta(&totals(1, 1), now),
                Eta { seconds, is_lower_bound: true, ..Eta::default() },
                "the stage goes on after its estimate has passed"
            );
        }
        outlook.set_over();
        assert_eq!(outlook.eta(&totals(1, 1), now), Eta { seconds: Some(0.0), ..Eta::default() });
    }

    #[test]
    fn links_and_failed_content_are_not_sent() {
        let outlook = Outlook::default();
        let mut now = Now { scan_done: true, open: 2, ..Now::default() };
        outlook.count_needed(1000 << 20, 0);
        outlook.count_needed(1000 << 20, 0);
        outlook.count_link(1 << 40);
        let mut totals = Totals { found: 3, found_bytes: (2000 << 20) + (1 << 40), ..Totals::default() };
        for step in 1..=10 {
            (now.at, totals.sent_bytes) = (f64::from(step) * 10.0, (step as u64 * 10) << 20);
            outlook.eta(&totals, now);
        }
        let left = outlook.eta(&totals, now).seconds.unwrap();
        assert!((1800.0..2100.0).contains(&left), "{left}");
        outlook.drop_needed(900 << 20);
        let left = outlook.eta(&totals, now).seconds.unwrap();
        assert!((950.0..1050.0).contains(&left), "{left}");
    }

    #[test]
    fn a_run_that_reads_has_a_time_left() {
        let outlook = ReadingOutlook::default();
        let found = WorkAmount::new(10, 1000);
        let mut now = Now { at: 0.2, scan_done: true, ..Now::default() };
        assert_eq!(outlook.eta(found, WorkAmount::default(), now).seconds, None);
        for second in 1..=10 {
            now.at = f64::from(second);
            outlook.eta(found, WorkAmount::new(second as u64 / 2, second as u64 * 50), now);
        }
        let eta = outlook.eta(found, WorkAmount::new(5, 500), now);
        assert!((9.0..11.5).contains(&eta.seconds.unwrap()), "{eta:?}");
        (now.scan_done, now.expected) = (false, Some(10));
        let more = outlook.eta(found, WorkAmount::new(5, 500), now);
        assert!(more.is_extrapolated && (24.0..34.0).contains(&more.seconds.unwrap()), "{more:?}");
    }
}
