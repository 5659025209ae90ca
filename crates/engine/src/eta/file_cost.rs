//! The cost of a file beside that of its bytes.

use std::collections::VecDeque;

use super::throughput::WorkAmount;

/// The cost of a file in bytes, until it is measured.
const EXPECTED: f64 = 64.0 * 1024.0;
/// The least and the highest cost of a file in bytes.
const RANGE: std::ops::RangeInclusive<f64> = 256.0..=1024.0 * 1024.0 * 1024.0;
/// The number of batches that count.
const RECENT: usize = 64;

/// Measures from batches how many bytes take as long as one file. The duration of each batch is divided by the cost so
/// far between its files and its bytes, which gives a new cost. This is the method of expectation maximization: the cost
/// stays positive, and approaches the one that explains the durations best.
#[derive(Debug, Default)]
pub(crate) struct FileCost {
    batches: VecDeque<BatchCost>,
    /// The last measurement.
    bytes: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
struct BatchCost {
    files: f64,
    bytes: f64,
    seconds: f64,
}

impl FileCost {
    /// Counts a batch for which a worker took this long.
    pub(crate) fn add(&mut self, WorkAmount { files, bytes }: WorkAmount, seconds: f64) {
        if files + bytes <= 0.0 || seconds <= 0.0 {
            return;
        }
        self.batches.push_back(BatchCost { files, bytes, seconds });
        if self.batches.len() > RECENT {
            self.batches.pop_front();
        }
        self.improve();
    }

    /// The number of bytes that take as long as one file.
    pub(crate) fn bytes(&self) -> f64 {
        self.bytes.unwrap_or(EXPECTED)
    }

    /// The seconds that a worker needs for each byte of cost ([`WorkAmount::cost`]); `None` if they are not measured.
    pub(crate) fn seconds_per_byte(&self) -> Option<f64> {
        let (mut seconds, mut all) = (0.0, WorkAmount::default());
        for batch in &self.batches {
            seconds += batch.seconds;
            all.files += batch.files;
            all.bytes += batch.bytes;
        }
        (seconds > 0.0).then(|| seconds / all.cost(self.bytes()))
    }

    /// One step of the method.
    fn improve(&mut self) {
        let cost = self.bytes();
        let (mut files, mut seconds_of_files) = (0.0, 0.0);
        let (mut bytes, mut seconds_of_bytes) = (0.0, 0.0);
        for batch in &self.batches {
            let of_bytes = batch.seconds * batch.bytes / (batch.files * cost + batch.bytes);
            bytes += batch.bytes;
            seconds_of_bytes += of_bytes;
            files += batch.files;
            seconds_of_files += batch.seconds - of_bytes;
        }
        if seconds_of_files > 0.0 && seconds_of_bytes > 0.0 {
            let cost = (seconds_of_files / files) / (seconds_of_bytes / bytes);
            self.bytes = Some(cost.clamp(*RANGE.start(), *RANGE.end()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_that_which_explains_the_batches() {
        for cost in [4096.0, 1e6, 50e6] {
            let mut measured = FileCost::default();
            for round in 0..60_u64 {
                let (files, bytes) = (512, 512 * (100 + round % 7 * 1000));
                measured.add(WorkAmount::new(files, bytes), (files as f64 * cost + bytes as f64) / 1e8);
                measured.add(WorkAmount::new(0, 4 << 20), f64::from(4 << 20) / 1e8);
            }
            let ratio = measured.bytes() / cost;
            assert!((0.9..1.1).contains(&ratio), "{cost}: {ratio}");
        }
    }

    #[test]
    fn the_cost_follows_a_change_and_stays_without_small_files() {
        let mut measured = FileCost::default();
        for cost in [1e5, 1e7] {
            for _ in 0..50 {
                measured.add(WorkAmount::new(512, 0), 512.0 * cost / 1e8);
                measured.add(WorkAmount::new(0, 4 << 20), f64::from(4 << 20) / 1e8);
            }
            assert!((0.9..1.1).contains(&(measured.bytes() / cost)), "{}", measured.bytes());
        }
        (0..1000).for_each(|_| measured.add(WorkAmount::new(0, 4 << 20), 1.0));
        assert!(measured.bytes() > 1e4, "{}", measured.bytes());
    }

    #[test]
    fn batches_without_content_or_duration_change_nothing() {
        let mut measured = FileCost::default();
        for (files, bytes, seconds) in [(0, 0, 1.0), (9, 9, 0.0), (0, u64::MAX, f64::MIN_POSITIVE)] {
            measured.add(WorkAmount::new(files, bytes), seconds);
            assert!(measured.bytes().is_finite() && measured.bytes() > 0.0);
        }
    }
}
