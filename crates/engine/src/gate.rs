//! Bounds what was found and is not yet asked about, by weight: a remote end decides how heavy its entries are.

use haul_core::sync::{Condvar, Mutex};
use std::time::Duration;

use haul_core::{Entry, ScanBatch};

/// Bytes of entries between the scan and the queue at most, unless one batch alone is more.
const MOST: usize = 12 * 1024 * 1024;

/// Lets in what fits.
#[derive(Default)]
pub(crate) struct Gate {
    used: Mutex<usize>,
    freed: Condvar,
}

impl Gate {
    /// Waits until a batch of this weight fits, or `stopped` says that nobody waits for it.
    pub(crate) fn enter(&self, weight: usize, stopped: impl Fn() -> bool) {
        let mut used = self.used.lock();
        while *used > 0 && *used + weight > MOST && !stopped() {
            let wait = self.freed.wait_timeout(used, Duration::from_millis(100));
            used = wait.0;
        }
        *used += weight;
    }

    /// A batch of this weight was dealt with.
    pub(crate) fn leave(&self, weight: usize) {
        let mut used = self.used.lock();
        *used = used.saturating_sub(weight);
        self.freed.notify_all();
    }
}

/// What a batch takes in memory.
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
    fn what_does_not_fit_waits() {
        let gate = Gate::default();
        gate.enter(MOST * 2, || false);
        gate.enter(1, || true);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.enter(5, || false));
            gate.leave(1);
            assert!(!waiting.is_finished());
            gate.leave(MOST * 2);
        });
        assert_eq!(*gate.used.lock(), 5);
    }
}
