//! The seconds left of a copy.

use haul_core::SLICE_LEN;

use super::file_cost::FileCost;
use super::throughput::{Throughput, WorkAmount};

/// The cost of a directory at the end of the run, as a part of that of a file.
const DIRECTORY: f64 = 0.5;
/// A run that lasts is never said to end at once: an estimate is no more exact than this share of the time so far.
const PRECISION: f64 = 0.2;
const LEAST: std::ops::RangeInclusive<f64> = 0.1..=1.0;

/// The first outcomes come late and tell little. So an estimate by them waits for this share of the work, at most for
/// these seconds.
const FIRST_SHARE: f64 = 0.1;
const FIRST_SECONDS: f64 = 30.0;

/// An estimate of more seconds, ten years, is none: the numbers of a remote end may be wrong.
const MOST: f64 = 10.0 * 365.0 * 86_400.0;

/// Whether an estimate of the seconds left says something.
pub(crate) fn is_sane(seconds: f64) -> bool {
    (0.0..=MOST).contains(&seconds)
}

/// The least estimate of the seconds left, of a run that has lasted `seconds`.
#[must_use]
pub fn floor(seconds: f64) -> f64 {
    (seconds * PRECISION).clamp(*LEAST.start(), *LEAST.end())
}

/// How far a copy is. Everything is the sum since the run began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standing {
    /// Seconds since the run began.
    pub(crate) at: f64,
    /// Content is queued or in flight.
    pub(crate) is_copying: bool,
    /// The scan has ended.
    pub(crate) scan_done: bool,
    /// The copy has held the scan back. Before that, the scan used more of the resources that the copy could use.
    pub(crate) scan_held: bool,
    /// The entries that the scan found, and those that it expects.
    pub(crate) found: WorkAmount,
    /// Of these, further names of files, which are linked when all content is there.
    pub(crate) linked_later: WorkAmount,
    /// The entries that were compared with the destination.
    pub(crate) compared: WorkAmount,
    /// Of these, the files of which content is needed.
    pub(crate) needed: WorkAmount,
    /// Of this content, that which is at the destination.
    pub(crate) done: WorkAmount,
    /// The directories that are made in the whole run.
    pub(crate) directories: f64,
    /// The most bytes of content in a second, if there is a limit.
    pub(crate) limit: Option<f64>,
}

/// Estimates the seconds left.
#[derive(Debug, Default)]
pub(crate) struct Estimator {
    at: f64,
    /// Seconds in which content was copied.
    copying_seconds: f64,
    copying: Throughput,
    /// Whether the scan was held back, whether it has ended, and whether all entries are compared: the scan and the
    /// comparison use resources that the copy could use. The last value is whether mostly large files are left: then
    /// the cost of a file no longer matters.
    beside: (bool, bool, bool, bool),
    /// The first entries were compared. Before that, time passes for the scan.
    has_compared: bool,
    /// Seconds in which entries were only compared.
    comparing_seconds: f64,
    comparing: Throughput,
}

impl Estimator {
    /// Takes the state of the run, several times a second.
    pub(crate) fn observe(&mut self, standing: &Standing) {
        let passed = (standing.at - self.at).max(0.0);
        self.at = standing.at;
        if standing.is_copying {
            self.copying_seconds += passed;
        } else if self.has_compared {
            self.comparing_seconds += passed;
        }
        self.has_compared = standing.compared.files > 0.0;
        let is_compared = standing.compared.files + standing.linked_later.files >= standing.found.files;
        let left = standing.needed.without(standing.done);
        let is_large = is_compared && left.bytes > left.files * SLICE_LEN as f64;
        let beside = (standing.scan_held, standing.scan_done, is_compared, is_large);
        if beside != self.beside {
            self.beside = beside;
            self.copying.change(self.copying_seconds);
        }
        self.copying.observe(self.copying_seconds, standing.done);
        self.comparing.observe(self.comparing_seconds, standing.compared);
    }

    /// The seconds until all found entries are copied; `None` if that is unknown.
    pub(crate) fn seconds_left(&self, standing: &Standing, file_cost: &FileCost) -> Option<f64> {
        let Standing { found, linked_later, compared, needed, done, limit, .. } = *standing;
        let uncompared = found.without(compared);
        let share =
            |needed: f64, compared: f64| if compared > 0.0 { (needed / compared).min(1.0) } else { 1.0 };
        let unknown = uncompared.without(linked_later);
        let mut left = needed.without(done);
        left.files += unknown.files * share(needed.files, compared.files);
        if unknown.files > 0.0 {
            left.bytes += unknown.bytes * share(needed.bytes, compared.bytes);
        }
        let comparing = self.comparing.speed(self.comparing_seconds, 1.0);
        let cost = |work: WorkAmount| work.cost(file_cost.bytes());
        let is_early = self.at < FIRST_SECONDS && cost(done) < FIRST_SHARE * cost(done.with(left));
        let copying = self.copying.speed(self.copying_seconds, file_cost.bytes()).filter(|_| !is_early);
        let compare_seconds = match comparing {
            Some(speed) => uncompared.files * speed.per_file,
            None if uncompared.files > 0.0 && left == WorkAmount::default() => return None,
            None => 0.0,
        };
        let at_limit = |bytes: f64| limit.map(|limit| bytes / limit.max(1.0));
        let copy_seconds = match copying {
            _ if left == WorkAmount::default() => 0.0,
            Some(speed) => speed.seconds(left).max(at_limit(left.bytes).unwrap_or(0.0) - speed.ahead),
            None => (at_limit(left.bytes + done.bytes)? - self.copying_seconds).max(0.0),
        };
        Some(compare_seconds + copy_seconds)
    }

    /// The seconds for an entry without content; `None` if they are not measured.
    pub(crate) fn seconds_per_entry(&self, file_cost: &FileCost) -> Option<f64> {
        let comparing = self.comparing.speed(self.comparing_seconds, 1.0);
        let copying = self.copying.speed(self.copying_seconds, file_cost.bytes());
        [comparing, copying].into_iter().flatten().map(|speed| speed.per_file).reduce(f64::max)
    }

    /// The seconds for the metadata of directories, after all else.
    pub(crate) fn seconds_to_finish(&self, standing: &Standing, file_cost: &FileCost) -> f64 {
        standing.directories * self.seconds_per_entry(file_cost).unwrap_or(0.0) * DIRECTORY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_outcomes_tell_no_time_unless_the_run_is_long() {
        let (mut estimator, cost) = (Estimator::default(), FileCost::default());
        let all = WorkAmount::new(10_000, 0);
        let mut left = |at: u32, done: u64| {
            let (at, done) = (f64::from(at), WorkAmount::new(done, 0));
            let (found, compared, needed) = (all, all, all);
            let files = Standing {
                at,
                is_copying: true,
                scan_done: true,
                found,
                compared,
                needed,
                done,
                ..Standing::default()
            };
            estimator.observe(&files);
            estimator.seconds_left(&files, &cost)
        };
        assert!((1..=29).all(|at| left(at, u64::from(at) * 34).is_none()), "below a tenth");
        assert!(left(30, 990).is_some(), "half a minute has passed");
    }
}
