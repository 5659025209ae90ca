//! Simulates copies, and compares each estimate with the seconds that were left. The time is a number, not a clock.

use std::collections::VecDeque;

use super::*;

const SLICE: f64 = 4.0 * 1024.0 * 1024.0;
const MIB: f64 = 1024.0 * 1024.0;
/// The largest number of small files in a bundle, and in the queue.
const BUNDLE: f64 = 512.0;
const QUEUE: f64 = 8192.0;
const STEP: f64 = 0.005;
const LOOK: f64 = 0.2;

/// A copy: its tree, and its limits.
#[derive(Clone, Copy)]
struct Copy {
    /// The number of small files and the bytes of each.
    small: (f64, f64),
    /// The bytes of large files.
    large: f64,
    /// Entries that are up to date, found before the others.
    same: f64,
    workers: usize,
    /// The seconds that a worker needs for a small file and for a byte.
    seconds: (f64, f64),
    /// Files in a second, and bytes in a second, of all workers together.
    limits: (f64, f64),
    /// Entries that are compared in a second, in groups of this many.
    compared: (f64, f64),
    /// Seconds from the end of a batch to its outcome.
    latency: f64,
    /// Seconds before the first comparison.
    start: f64,
    /// The limit of bytes is one that haul knows.
    knows_limit: bool,
}

const COPY: Copy = Copy {
    small: (0.0, 2048.0),
    large: 0.0,
    same: 0.0,
    workers: 4,
    seconds: (0.002, 20e-9),
    limits: (f64::INFINITY, f64::INFINITY),
    compared: (200_000.0, 4096.0),
    latency: 0.05,
    start: 0.3,
    knows_limit: false,
};

const SMALL: Copy = Copy { small: (40_000.0, 2048.0), ..COPY };
const LARGE: Copy = Copy { large: 3072.0 * MIB, ..COPY };
const MIXED: Copy = Copy { small: (15_000.0, 2048.0), large: 2048.0 * MIB, ..COPY };

/// The batch of a worker, and the work that is left of it.
#[derive(Clone, Copy, Default)]
struct SimulatedBatch {
    whole: WorkAmount,
    left: WorkAmount,
    since: f64,
    number: usize,
}

/// The seconds of a run, and the estimates in it with their times.
struct SimulatedRun {
    seconds: f64,
    estimates: Vec<(f64, Option<f64>)>,
}

impl Copy {
    fn run(self) -> SimulatedRun {
        let (mut estimator, mut file_cost, mut progress, mut estimates) =
            (Estimator::default(), FileCost::default(), InProgress::default(), Vec::new());
        let mut number = 0;
        let total = WorkAmount {
            files: self.same + self.small.0 + (self.large / SLICE).min(1.0).ceil(),
            bytes: self.small.0 * self.small.1 + self.large,
        };
        let mut batches = vec![SimulatedBatch::default(); self.workers];
        let mut outcomes: VecDeque<(f64, SimulatedBatch)> = VecDeque::new();
        let (mut compared, mut small, mut large, mut done) =
            (0.0_f64, 0.0_f64, 0.0_f64, WorkAmount::default());
        let (mut queued_small, mut was_small, mut next_look, mut now) = (0.0_f64, false, LOOK, 0.0);
        loop {
            now += STEP;
            // Compare: first the entries that are up to date, then the large file, then the small ones.
            let at_most = (now - self.start).max(0.0) * self.compared.0;
            while compared < total.files
                && compared + self.compared.1.min(total.files - compared) <= at_most + 1e-6
                && queued_small < QUEUE
            {
                let before = compared;
                compared += self.compared.1.min(total.files - compared);
                if before <= self.same && compared > self.same && self.large > 0.0 {
                    large = self.large;
                }
                let small_now = (compared - self.same - f64::from(u8::from(self.large > 0.0))).max(0.0);
                queued_small += small_now - small;
                small = small_now;
            }
            let files_step =
                self.limits.0 * STEP / batches.iter().filter(|b| b.left.files > 0.0).count().max(1) as f64;
            let bytes_step = self.limits.1 * STEP
                / batches.iter().filter(|b| b.left.files <= 0.0 && b.left.bytes > 0.0).count().max(1) as f64;
            for batch in &mut batches {
                if batch.left == WorkAmount::default() && batch.whole != WorkAmount::default() {
                    file_cost.add(batch.whole, now - batch.since);
                    progress.sent(batch.number, now);
                    outcomes.push_back((now + self.latency, *batch));
                    *batch = SimulatedBatch::default();
                }
                if batch.whole == WorkAmount::default() {
                    let takes_small = queued_small > 0.0 && (!was_small || large <= 0.0);
                    was_small = takes_small;
                    let whole = if takes_small {
                        let files =
                            (queued_small / self.workers as f64).clamp(16.0, BUNDLE).min(queued_small);
                        queued_small -= files;
                        WorkAmount { files, bytes: files * self.small.1 }
                    } else {
                        let bytes = SLICE.min(large);
                        large -= bytes;
                        WorkAmount { files: 0.0, bytes }
                    };
                    number += 1;
                    *batch = SimulatedBatch { number, whole, left: whole, since: now };
                    progress.begin(number, whole, now);
                }
                if batch.left.files > 0.0 {
                    batch.left.files = (batch.left.files - files_step.min(STEP / self.seconds.0)).max(0.0);
                } else {
                    batch.left.bytes = (batch.left.bytes - bytes_step.min(STEP / self.seconds.1)).max(0.0);
                }
            }
            while outcomes.front().is_some_and(|(at, _)| *at <= now) {
                let batch = outcomes.pop_front().unwrap().1;
                progress.end(batch.number, now);
                done.files += batch.whole.files;
                done.bytes += batch.whole.bytes;
            }
            let is_compared = compared >= total.files;
            let needed = WorkAmount {
                files: small + f64::from(u8::from(self.large > 0.0 && compared > self.same)),
                bytes: small * self.small.1 + if compared > self.same { self.large } else { 0.0 },
            };
            // The large file is done with its last byte.
            let is_done = is_compared && needed.bytes - done.bytes < 0.5;
            if is_done {
                done = needed;
            }
            if now >= next_look {
                next_look += LOOK;
                let standing = Standing {
                    at: now,
                    is_copying: needed != done,
                    scan_done: true,
                    found: total,
                    compared: WorkAmount { files: compared, bytes: needed.bytes },
                    needed,
                    done: done.with(progress.done(now, &file_cost)),
                    limit: Some(self.limits.1).filter(|_| self.knows_limit),
                    ..Standing::default()
                };
                estimator.observe(&standing);
                let left = estimator.seconds_left(&standing, &file_cost);
                estimates.push((now, left.map(|left| left.max(floor(now)))));
            }
            if is_done {
                return SimulatedRun { seconds: now, estimates };
            }
        }
    }
}

impl SimulatedRun {
    /// The estimate after a part of the run, as a multiple of the seconds that were left.
    fn ratio(&self, part: f64) -> f64 {
        let (at, estimate) = *self.estimates.iter().find(|(at, _)| *at >= self.seconds * part).unwrap();
        estimate.unwrap_or(f64::NAN) / (self.seconds - at)
    }

    fn check(&self, name: &str) {
        assert!(self.seconds > 8.0, "{name}: {} s is too short to tell", self.seconds);
        let ratio = self.ratio(0.2);
        assert!((0.75..=1.25).contains(&ratio), "{name}: {ratio} of {} s", self.seconds);
        for (at, estimate) in &self.estimates {
            let left = self.seconds - at;
            let Some(estimate) = estimate else { continue };
            assert!(left <= 1.0 || *estimate >= 0.1, "{name}: {estimate} with {left} s to go");
            let is_early = *at < self.seconds * 0.2;
            assert!(!is_early || *estimate < left * 3.5, "{name}: {estimate} at {at} s with {left} s to go");
        }
    }
}

#[test]
fn after_a_fifth_of_a_run_the_rest_is_known_for_three_trees() {
    for (tree, copy) in [("small", SMALL), ("large", LARGE), ("mixed", MIXED)] {
        copy.run().check(tree);
        let limited = [
            ("bytes", Copy { limits: (f64::INFINITY, 60.0 * MIB), knows_limit: true, ..copy }),
            ("files", Copy { limits: (1000.0, f64::INFINITY), ..copy }),
            ("latency", Copy { latency: 0.8, ..copy }),
            ("workers", Copy { workers: 16, seconds: (0.02, 150e-9), ..copy }),
            ("start", Copy { start: 2.0, ..copy }),
        ];
        for (what, copy) in limited {
            let run = copy.run();
            if run.seconds > 8.0 {
                run.check(&format!("{tree}, {what}"));
            }
        }
    }
}

#[test]
fn a_limit_counts_before_the_first_outcome() {
    let run =
        Copy { limits: (f64::INFINITY, MIB / 4.0), large: 128.0 * MIB, knows_limit: true, ..LARGE }.run();
    let known: Vec<_> = run.estimates.iter().filter(|(at, _)| *at > 0.6).collect();
    for (at, estimate) in known {
        let (estimate, left) = (estimate.unwrap(), run.seconds - at);
        assert!((left * 0.9 - 1.0..left * 1.1 + 1.0).contains(&estimate), "{estimate} with {left} s to go");
    }
}

#[test]
fn entries_that_are_up_to_date_cost_only_the_comparison() {
    // All of it is up to date.
    let same = Copy { same: 100_000.0, compared: (5_000.0, 512.0), ..COPY };
    same.run().check("same");
}
