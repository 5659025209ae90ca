//! The batches that are on their way.

use std::collections::HashMap;

use super::file_cost::FileCost;
use super::throughput::Work;

/// The most of a batch that may be done while it has no outcome.
const MOST: f64 = 0.95;

/// Batches without an outcome. A batch can take many seconds, and its outcome comes only at its end. So the part of it
/// that is done is estimated, from the time that others took.
#[derive(Debug, Default)]
pub(crate) struct InProgress {
    /// The work of each batch and the second at which it began.
    batches: HashMap<usize, (Work, f64)>,
    /// The seconds from the begin of a batch to its outcome.
    taken: FileCost,
}

impl InProgress {
    /// A batch begins.
    pub(crate) fn begin(&mut self, number: usize, work: Work, at: f64) {
        self.batches.insert(number, (work, at));
    }

    /// A batch has its outcome.
    pub(crate) fn end(&mut self, number: usize, at: f64) {
        if let Some((work, since)) = self.batches.remove(&number) {
            self.taken.add(work, at - since);
        }
    }

    /// The work that is done of these batches.
    pub(crate) fn done(&self, at: f64) -> Work {
        let mut done = Work::default();
        let Some(seconds_per_byte) = self.taken.seconds_per_byte() else { return done };
        let per_file = self.taken.bytes();
        for (work, since) in self.batches.values() {
            let seconds = seconds_per_byte * work.cost(per_file);
            let part = ((at - since) / seconds).clamp(0.0, MOST);
            done.files += work.files * part;
            done.bytes += work.bytes * part;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_done_as_fast_as_those_before() {
        let mut progress = InProgress::default();
        let work = Work::new(0, 1000);
        progress.begin(1, work, 0.0);
        assert_eq!(progress.done(5.0), Work::default(), "nothing is known");
        progress.end(1, 10.0);
        progress.begin(2, Work::new(0, 2000), 10.0);
        assert!((progress.done(20.0).bytes - 1000.0).abs() < 1e-6);
        assert!((progress.done(99.0).bytes - 1900.0).abs() < 1e-6, "it is not done before its outcome");
        progress.end(2, 99.0);
        progress.end(2, 99.0);
        assert_eq!(progress.done(100.0), Work::default());
    }
}
