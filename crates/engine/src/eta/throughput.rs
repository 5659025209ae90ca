//! How fast work is done.

use std::collections::VecDeque;

/// The time over which the rate is the average: this many seconds, or this share of the time so far.
const WINDOW: f64 = 20.0;
const SHARE: f64 = 0.25;
/// The time after a change of conditions in which the rate is that before it: this many seconds, or this share of the time
/// so far.
const SETTLED: f64 = 3.0;
const SETTLED_SHARE: f64 = 0.1;
/// There is no rate until this many times the time to the first outcome has passed.
const RELIABLE: f64 = 1.5;
/// The most outcomes to keep; beyond it, every other one is dropped.
const MAX_OUTCOMES: usize = 512;
/// The fewest outcomes to keep, however old.
const MIN_OUTCOMES: usize = 4;

/// Files and bytes of content.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct WorkAmount {
    pub(crate) files: f64,
    pub(crate) bytes: f64,
}

impl WorkAmount {
    pub(crate) fn new(files: u64, bytes: u64) -> Self {
        Self { files: files as f64, bytes: bytes as f64 }
    }

    /// This without `other`, and never less than nothing.
    pub(crate) fn without(self, other: Self) -> Self {
        Self { files: (self.files - other.files).max(0.0), bytes: (self.bytes - other.bytes).max(0.0) }
    }

    pub(crate) fn with(self, other: Self) -> Self {
        Self { files: self.files + other.files, bytes: self.bytes + other.bytes }
    }

    /// A part of it.
    pub(crate) fn part(self, part: f64) -> Self {
        Self { files: self.files * part, bytes: self.bytes * part }
    }

    /// This and so many files more, as large as the mean of these.
    pub(crate) fn extrapolated(self, more: u64) -> Self {
        let files = self.files + more as f64;
        if self.files > 0.0 { self.part(files / self.files) } else { self }
    }

    /// As one number, if a file costs as much as this many bytes.
    pub(super) fn cost(self, per_file: f64) -> f64 {
        self.files * per_file + self.bytes
    }
}

/// The sum of the work that is done, at the times at which it grew.
#[derive(Debug, Default)]
pub(crate) struct Throughput {
    outcomes: VecDeque<(f64, WorkAmount)>,
    /// The first outcome is not that of the beginning any more.
    is_trimmed: bool,
    /// When the conditions changed for the last time.
    changed: f64,
}

/// The speed of work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speed {
    /// Seconds for a file.
    pub(crate) per_file: f64,
    /// Seconds for a byte.
    pub(crate) per_byte: f64,
    /// Seconds in which work was done that has no outcome yet.
    pub(crate) ahead: f64,
}

impl Speed {
    /// The seconds for this work.
    pub(crate) fn seconds(&self, work: WorkAmount) -> f64 {
        (work.files * self.per_file + work.bytes * self.per_byte - self.ahead).max(0.0)
    }
}

impl Throughput {
    /// By `now`, in seconds since the work began, this is done.
    pub(crate) fn observe(&mut self, now: f64, done: WorkAmount) {
        let last = self.outcomes.back().copied();
        if last.map_or(WorkAmount::default(), |(_, work)| work) == done {
            return;
        }
        self.outcomes.push_back((now, done));
        // After a change, the outcomes before it count until there are enough others.
        let is_settled = now - self.changed >= SETTLED.max(now * SETTLED_SHARE);
        let from = (now - WINDOW.max(now * SHARE)).max(if is_settled { self.changed } else { 0.0 });
        while self.outcomes.len() > MIN_OUTCOMES && self.outcomes.get(1).is_some_and(|(at, _)| *at <= from) {
            self.outcomes.pop_front();
            self.is_trimmed = true;
        }
        if self.outcomes.len() > MAX_OUTCOMES {
            let mut number = 0;
            self.outcomes.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
    }

    /// From now on the work is done under other conditions, so its rate may be another one.
    pub(crate) fn change(&mut self, now: f64) {
        self.changed = now;
    }

    /// The speed at the time `now`, if a file costs as much as `per_file` bytes; `None` if it is unknown.
    pub(crate) fn speed(&self, now: f64, per_file: f64) -> Option<Speed> {
        let (first, last) = (*self.outcomes.front()?, *self.outcomes.back()?);
        // The first outcome came late, because it passed through all stages. But outcomes may come in bursts: then the
        // next one has to be waited for just as long.
        if !self.is_trimmed && now < first.0 * RELIABLE {
            return None;
        }
        let is_steady = self.outcomes.len() > 2 && last.0 - first.0 >= first.0;
        let begin = if self.is_trimmed || is_steady { first } else { (0.0, WorkAmount::default()) };
        let moved = last.1.without(begin.1).cost(per_file);
        if moved <= 0.0 {
            return None;
        }
        let mut before = begin.0;
        let mut gap: f64 = 0.0;
        for (at, _) in &self.outcomes {
            gap = gap.max(at - before);
            before = *at;
        }
        // An outcome that is late means that the work has become slower.
        let since = now - last.0;
        let ahead = since.min(gap);
        let per_byte = (last.0 - begin.0 + since - ahead) / moved;
        Some(Speed { per_file: per_file * per_byte, per_byte, ahead })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(bytes: f64) -> WorkAmount {
        WorkAmount { files: 0.0, bytes }
    }

    fn left(throughput: &Throughput, now: f64, left: f64) -> f64 {
        throughput.speed(now, 1.0).unwrap().seconds(bytes(left))
    }

    #[test]
    fn the_time_to_the_first_outcome_is_no_part_of_the_rate() {
        let mut steady = Throughput::default();
        for tick in 10..40 {
            steady.observe(f64::from(tick) * 0.2, bytes(f64::from(tick - 9) * 100.0));
        }
        // 500 bytes in a second.
        assert!((left(&steady, 39.0 * 0.2, 1000.0) - 2.0).abs() < 0.01);
    }

    #[test]
    fn the_time_left_passes_between_two_outcomes() {
        let mut bursts = Throughput::default();
        assert!(bursts.speed(5.0, 1.0).is_none());
        bursts.observe(10.0, bytes(100.0));
        assert!(bursts.speed(14.0, 1.0).is_none(), "the first outcome says little");
        assert!((left(&bursts, 15.0, 200.0) - 15.0).abs() < 1e-9);
        assert!((left(&bursts, 19.0, 200.0) - 11.0).abs() < 1e-9);
        bursts.observe(20.0, bytes(200.0));
        assert!((left(&bursts, 20.0, 100.0) - 10.0).abs() < 1e-9);
        // Half as fast, for all that is known.
        assert!((left(&bursts, 50.0, 100.0) - 10.0).abs() < 1e-9);
        assert!(left(&bursts, 100.0, 100.0) > 30.0);
    }

    #[test]
    fn a_change_of_conditions_ends_the_old_rate() {
        let mut faster = Throughput::default();
        for tick in 1..=50 {
            faster.observe(f64::from(tick) * 0.2, bytes(f64::from(tick)));
        }
        faster.change(10.0);
        for tick in 1..=20 {
            faster.observe(10.0 + f64::from(tick) * 0.2, bytes(50.0 + f64::from(tick) * 10.0));
        }
        assert!((left(&faster, 14.0, 100.0) - 2.0).abs() < 0.2, "{}", left(&faster, 14.0, 100.0));
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let mut slower = Throughput::default();
        let mut done = 0.0;
        for second in 0..100 {
            done += if second < 50 { 1000.0 } else { 100.0 };
            slower.observe(f64::from(second), bytes(done));
        }
        assert!((left(&slower, 99.0, 1000.0) - 10.0).abs() < 0.5);
        for tick in 0..100_000 {
            done += 100.0;
            slower.observe(100.0 + f64::from(tick), bytes(done));
        }
        assert!(slower.outcomes.len() <= MAX_OUTCOMES);
        assert!((left(&slower, 100_099.0, 1000.0) - 10.0).abs() < 0.5);
    }
}
