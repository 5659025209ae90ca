//! A limit on the file system operations per second of one end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::limit::Limiter;

/// Limits the rate of file system operations. Without a limit, a call costs one atomic load.
#[derive(Debug, Default)]
pub struct Ops {
    limiter: Limiter,
    /// How many threads wait.
    waiting: AtomicUsize,
    over: OnceLock<Arc<AtomicBool>>,
}

impl Ops {
    /// Sets the limit in operations per second; `None` is no limit.
    pub fn limit(&self, rate: Option<u64>) {
        self.limiter.set(rate);
    }

    /// Whether there is a limit.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.limiter.rate().is_some()
    }

    /// Whether any thread waits because of the limit.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// No call blocks any more once `over` is set, so that the run can end.
    pub fn until(&self, over: Arc<AtomicBool>) {
        // The first caller is the owner of the run; later flags are ignored.
        let _ = self.over.set(over);
    }

    /// Blocks until one operation is allowed. Threads are served in the order of their calls.
    pub fn one(&self) {
        self.some(1);
    }

    /// Blocks until `count` successive operations are allowed.
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
    fn operations_keep_to_the_limit() {
        let ops = Ops::default();
        ops.some(1_000_000);
        ops.limit(Some(1000));
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..50).for_each(|_| ops.one()));
            }
        });
        // The first hundred come at once: a burst of a tenth of a second is allowed.
        assert!(begun.elapsed().as_millis() >= 295, "{:?}", begun.elapsed());
    }

    #[test]
    fn nothing_waits_once_the_run_is_over() {
        let (ops, over) = (Ops::default(), Arc::new(AtomicBool::new(false)));
        ops.until(Arc::clone(&over));
        ops.limit(Some(1));
        ops.one();
        over.store(true, Ordering::Relaxed);
        ops.some(1_000_000);
    }
}
