//! The batches that have no outcome.

use std::collections::HashMap;

use super::file_cost::FileCost;
use super::throughput::WorkAmount;

/// The most of a batch that may be done while it has no outcome.
const MOST: f64 = 0.99;
/// The weight of the times of a batch, if those of the next batch weigh 1.
const OLDER: f64 = 0.95;

/// Batches without an outcome. A worker can have a batch for many seconds, and the outcome comes only at its end. So
/// `done` estimates the part of the batch that is done, from the time that other batches took.
///
/// A batch that a worker has sent to another machine waits there behind other batches. So only the share of the time of
/// the worker in the time to the outcome counts as done, and only for as many batches as workers have at once.
#[derive(Debug, Default)]
pub(crate) struct InProgress {
    batches: HashMap<usize, BatchInProgress>,
    /// The batches that workers have, and the most that they had.
    held: usize,
    most_held: usize,
    /// The seconds in which workers had batches, and those from the begin of the batches to their outcome.
    held_seconds: f64,
    all_seconds: f64,
}

#[derive(Debug)]
struct BatchInProgress {
    work: WorkAmount,
    /// The seconds at which it began and at which the worker had done its part.
    begun: f64,
    sent: Option<f64>,
}

impl InProgress {
    /// A worker took a batch.
    pub(crate) fn begin(&mut self, number: usize, work: WorkAmount, at: f64) {
        self.batches.insert(number, BatchInProgress { work, begun: at, sent: None });
        self.held += 1;
        self.most_held = self.most_held.max(self.held);
    }

    /// The worker has done its part.
    pub(crate) fn sent(&mut self, number: usize, at: f64) {
        self.held = self.held.saturating_sub(1);
        if let Some(batch) = self.batches.get_mut(&number) {
            batch.sent = Some(at);
        }
    }

    /// A batch has its outcome, possibly before the worker knows it.
    pub(crate) fn end(&mut self, number: usize, at: f64) {
        if let Some(batch) = self.batches.remove(&number) {
            let held = batch.sent.unwrap_or(at) - batch.begun;
            self.held_seconds = self.held_seconds * OLDER + held;
            self.all_seconds = self.all_seconds * OLDER + (at - batch.begun);
        }
    }

    /// The work that is done of these batches.
    pub(crate) fn done(&self, at: f64, file_cost: &FileCost) -> WorkAmount {
        let Some(seconds_per_byte) = file_cost.seconds_per_byte() else { return WorkAmount::default() };
        let per_file = file_cost.bytes();
        let (mut held, mut sent, mut sent_count) = (WorkAmount::default(), WorkAmount::default(), 0.0);
        for batch in self.batches.values() {
            if batch.sent.is_some() {
                sent = sent.with(batch.work);
                sent_count += 1.0;
            } else {
                let seconds = seconds_per_byte * batch.work.cost(per_file);
                held = held.with(batch.work.part(((at - batch.begun) / seconds).clamp(0.0, MOST)));
            }
        }
        let share = if self.all_seconds > 0.0 { self.held_seconds / self.all_seconds } else { 0.0 };
        let counted = (self.most_held as f64 / sent_count).min(1.0);
        held.with(sent.part(MOST * counted)).part(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_done_as_fast_as_those_before() {
        let (mut progress, mut cost) = (InProgress::default(), FileCost::default());
        let work = WorkAmount::new(0, 1000);
        progress.begin(1, work, 0.0);
        assert_eq!(progress.done(5.0, &cost), WorkAmount::default(), "nothing is known");
        progress.end(1, 10.0);
        progress.sent(1, 10.0);
        cost.add(work, 10.0);
        progress.begin(2, WorkAmount::new(0, 2000), 10.0);
        assert!((progress.done(20.0, &cost).bytes - 1000.0).abs() < 1e-6);
        assert!((progress.done(99.0, &cost).bytes - 1980.0).abs() < 1e-6, "it has no outcome");
        progress.end(2, 99.0);
        progress.sent(2, 99.0);
        progress.end(2, 99.0);
        progress.sent(2, 99.0);
        assert_eq!(progress.done(100.0, &cost), WorkAmount::default());
    }

    #[test]
    fn batches_that_wait_at_the_other_end_are_not_done() {
        let (mut progress, mut cost) = (InProgress::default(), FileCost::default());
        cost.add(WorkAmount::new(0, 1000), 1.0);
        for number in 0..100 {
            progress.begin(number, WorkAmount::new(0, 1000), 0.0);
            progress.sent(number, 1.0);
        }
        progress.end(0, 10.0);
        assert!((progress.done(10.0, &cost).bytes - 99.0).abs() < 1e-6, "a tenth of one");
    }
}
