//! Limits the requests in flight: halves the limit when a store asks to slow down, and raises it again with each
//! success (AIMD).

use haul_core::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// Several "slow down" answers within this time count once.
const BURST: Duration = Duration::from_millis(500);

/// Issues permits.
pub(crate) struct ConcurrencyLimiter {
    most: f64,
    state: Mutex<LimiterState>,
    changed: Condvar,
}

struct LimiterState {
    allowed: f64,
    in_flight: usize,
    lowered: Option<Instant>,
}

/// The permit for one request in flight; returned on drop.
pub(crate) struct Permit<'a>(&'a ConcurrencyLimiter);

impl ConcurrencyLimiter {
    /// A limiter of at most `most` requests.
    pub(crate) fn new(most: usize) -> Self {
        let most = most.max(1) as f64;
        let state = LimiterState { allowed: most, in_flight: 0, lowered: None };
        Self { most, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits for a permit.
    pub(crate) fn permit(&self) -> Permit<'_> {
        let mut state = self.state.lock();
        while state.in_flight as f64 >= state.allowed.floor() {
            state = self.changed.wait(state);
        }
        state.in_flight += 1;
        Permit(self)
    }

    /// Halves the limit, because the store asked to slow down.
    pub(crate) fn slow_down(&self) {
        let mut state = self.state.lock();
        if state.lowered.is_none_or(|at| at.elapsed() > BURST) {
            state.lowered = Some(Instant::now());
            state.allowed = (state.allowed.min(state.in_flight as f64) / 2.0).max(1.0);
        }
    }

    /// A request succeeded: raises the limit by one after as many successes as the limit.
    pub(crate) fn succeeded(&self) {
        let mut state = self.state.lock();
        if state.allowed < self.most {
            state.allowed = (state.allowed + 1.0 / state.allowed).min(self.most);
            drop(state);
            self.changed.notify_all();
        }
    }

    #[cfg(test)]
    fn allowed(&self) -> usize {
        self.state.lock().allowed as usize
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.state.lock().in_flight -= 1;
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_halved_at_once_and_recovers_one_by_one() {
        let limiter = ConcurrencyLimiter::new(8);
        let held: Vec<_> = (0..8).map(|_| limiter.permit()).collect();
        limiter.slow_down();
        limiter.slow_down();
        assert_eq!(limiter.allowed(), 4);
        for _ in 0..5 {
            limiter.succeeded();
        }
        assert_eq!(limiter.allowed(), 5);
        drop(held);
        for _ in 0..100 {
            limiter.succeeded();
        }
        assert_eq!(limiter.allowed(), 8);
    }
}
