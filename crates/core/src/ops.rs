//! A limit on the file-system operations of one end in a second.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::limit::Limiter;

/// Lets file-system operations through at a rate. Without one it costs one atomic load.
#[derive(Debug, Default)]
pub struct Ops {
    limiter: Limiter,
    /// Who waits for a turn.
    waiting: AtomicUsize,
    over: OnceLock<Arc<AtomicBool>>,
}

impl Ops {
    /// Operations per second from now on; `None` is no limit.
    pub fn limit(&self, rate: Option<u64>) {
        self.limiter.set(rate);
    }

    /// Whether there is a limit.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.limiter.rate().is_some()
    }

    /// Whether somebody waits because of the limit.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Once `over` is set, nothing waits any more: the run is to end.
    pub fn until(&self, over: Arc<AtomicBool>) {
        // Who says it first is who runs it all.
        let _ = self.over.set(over);
    }

    /// Waits until one more operation may be made. Who asks first is served first.
    pub fn one(&self) {
        self.some(1);
    }

    /// The same for several that follow each other.
    pub fn some(&self, count: u32) {
        if !self.is_limited() {
            return;
        }
        let over = || self.over.get().is_some_and(|over| over.load(Ordering::Relaxed));
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut left = count as usize;
        while left > 0
            && let Some(let_through) = self.limiter.take(left, &over)
        {
            left -= let_through;
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn operations_come_no_faster_than_they_may() {
        let ops = Ops::default();
        ops.some(1_000_000);
        ops.limit(Some(1000));
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..50).for_each(|_| ops.one()));
            }
        });
        // The first hundred may come at once: a tenth of a second is made up for.
        assert!(begun.elapsed().as_millis() >= 295, "{:?}", begun.elapsed());
    }

    #[test]
    fn a_run_that_is_over_waits_for_nothing() {
        let (ops, over) = (Ops::default(), Arc::new(AtomicBool::new(false)));
        ops.until(Arc::clone(&over));
        ops.limit(Some(1));
        ops.one();
        over.store(true, Ordering::Relaxed);
        ops.some(1_000_000);
    }
}
