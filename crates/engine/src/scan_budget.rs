//! Limits the memory of entries between the scan and the queue. The limit is a weight, not a count, because a remote
//! end decides how large its entries are.

use haul_core::sync::{Condvar, Mutex};
use std::time::Duration;

use haul_core::{Entry, ScanBatch};

/// The largest weight of the entries between the scan and the queue, in bytes. One batch alone may weigh more.
const MAX_WEIGHT: usize = 12 * 1024 * 1024;
/// How often a waiting scan checks whether the run was stopped.
const CHECK: Duration = Duration::from_millis(100);

/// Makes the scan wait while the feeders are behind.
#[derive(Default)]
pub(crate) struct ScanBudget {
    used: Mutex<usize>,
    freed: Condvar,
}

impl ScanBudget {
    /// Waits until a batch of this weight fits, or until `stopped` is true. Returns whether it had to wait.
    pub(crate) fn acquire(&self, weight: usize, stopped: impl Fn() -> bool) -> bool {
        let mut used = self.used.lock();
        let mut waited = false;
        while *used > 0 && *used + weight > MAX_WEIGHT && !stopped() {
            waited = true;
            used = self.freed.wait_timeout(used, CHECK).0;
        }
        *used += weight;
        waited
    }

    /// Gives back the weight of a batch that was processed.
    pub(crate) fn release(&self, weight: usize) {
        let mut used = self.used.lock();
        *used = used.saturating_sub(weight);
        self.freed.notify_all();
    }
}

/// The memory that a batch takes, in bytes.
pub(crate) fn weight(batch: &ScanBatch) -> usize {
    let text = |failure: &haul_core::Failure| {
        256 + failure.path.as_bytes().len() + failure.error.operation().len() + failure.error.cause().len()
    };
    let errors: usize = batch.errors.iter().map(text).sum();
    errors + batch.entries.iter().map(Entry::weight).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_does_not_fit_waits() {
        let budget = ScanBudget::default();
        assert!(!budget.acquire(MAX_WEIGHT * 2, || false));
        budget.acquire(1, || true);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| budget.acquire(5, || false));
            budget.release(1);
            assert!(!waiting.is_finished());
            budget.release(MAX_WEIGHT * 2);
        });
        assert_eq!(*budget.used.lock(), 5);
    }
}
