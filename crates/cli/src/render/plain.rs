//! Progress without a terminal: a line at intervals, if something has moved.

use haul_core::sync::Mutex;
use std::time::{Duration, Instant};

use haul_core::{Phase, Progress};

use super::gauge::{ProgressGauge, done_bytes, done_entries, status_line};
use super::print::say;

/// Interval between lines.
const PERIOD: Duration = Duration::from_secs(10);
/// The same while nothing moves.
const STALLED: Duration = Duration::from_secs(60);
/// New entries of a scan count as a move for this long.
const RECENT: Duration = Duration::from_secs(2);

/// Lines on standard error.
pub(super) struct Ticker(Mutex<LastLine>);

/// The last line, or the begin of the run.
struct LastLine {
    at: Instant,
    /// The amounts of that line.
    shown: Option<Amounts>,
    /// The last amounts, and since when they stand still.
    seen: Option<(Amounts, Instant)>,
}

/// The amounts that a run has found and done.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Amounts {
    done: [u64; 3],
    found: [u64; 2],
    phase: Phase,
}

impl Amounts {
    fn of(progress: &Progress) -> Self {
        let totals = &progress.totals;
        let done = [done_entries(progress) + totals.failed, done_bytes(progress), totals.removed];
        Self { done, found: [totals.found, totals.found_bytes], phase: progress.phase }
    }
}

impl LastLine {
    /// The begin of a run.
    fn new(now: Instant) -> Self {
        Self { at: now, shown: None, seen: None }
    }

    /// Whether a line is due. A run that has not done anything yet and stands still says nothing: the cause has a line of
    /// its own.
    fn is_due(&mut self, progress: &Progress, now: Instant) -> bool {
        let amounts = Amounts::of(progress);
        let shown = *self.shown.get_or_insert(amounts);
        let (seen, since) = *self.seen.get_or_insert((amounts, now));
        let since = if seen == amounts { since } else { now };
        self.seen = Some((amounts, since));
        let passed = now.saturating_duration_since(self.at);
        let is_due = if amounts.done == [0; 3] {
            shown != amounts && now.saturating_duration_since(since) < RECENT
        } else {
            shown != amounts || passed >= STALLED
        };
        if passed < PERIOD || !is_due {
            return false;
        }
        (self.at, self.shown) = (now, Some(amounts));
        true
    }
}

impl Ticker {
    /// The first line follows after one interval.
    pub(super) fn new() -> Self {
        Self(Mutex::new(LastLine::new(Instant::now())))
    }
}

impl ProgressGauge for Ticker {
    fn show(&self, progress: &Progress, _file: Option<&[u8]>) {
        if self.0.lock().is_due(progress, Instant::now()) {
            say(&format!("{}\n", status_line(progress, None)));
        }
    }

    fn aside(&self, print: &mut dyn FnMut()) {
        print();
    }

    fn close(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_stands_still_has_few_lines() {
        let begun = Instant::now();
        let run = |found: &dyn Fn(u64) -> u64, amount: &dyn Fn(u64) -> u64| {
            let mut last = LastLine::new(begun);
            let due = |second: &u64| {
                let mut progress = Progress::default();
                (progress.totals.found, progress.totals.sent_bytes) = (found(*second), amount(*second));
                last.is_due(&progress, begun + Duration::from_secs(*second))
            };
            (0..=120).filter(due).collect::<Vec<u64>>()
        };
        let lines = |amount: &dyn Fn(u64) -> u64| run(&|_| 1, amount);
        assert_eq!(lines(&|second| second), (1..=12).map(|line| line * 10).collect::<Vec<u64>>());
        assert!(lines(&|_| 0).is_empty(), "nothing was done");
        assert!(run(&|second| second.min(1), &|_| 0).is_empty(), "the input was read");
        assert_eq!(run(&|second| second.min(25), &|_| 0), [10, 20], "the scan goes on");
        assert_eq!(lines(&|second| second.min(15)), [10, 20, 80], "it stands still after 15 seconds");
        assert_eq!(lines(&|second| second.saturating_sub(30)), [31, 41, 51, 61, 71, 81, 91, 101, 111]);
    }
}
