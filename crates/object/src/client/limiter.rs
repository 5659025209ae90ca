//! Limits the requests in flight: halves the limit when a store asks to slow down, and raises it again with each
//! success (AIMD).

use haul_core::Pace;
use haul_core::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// Several "slow down" answers within this time count once.
const BURST: Duration = Duration::from_millis(500);

/// How often a request that waits looks whether the rate limit has changed.
const LOOK: Duration = Duration::from_millis(500);

/// Issues permits.
pub(crate) struct ConcurrencyLimiter {
    most: f64,
    /// At a low rate, few requests are in flight: a store closes a connection on which nothing moves for long.
    pace: Pace,
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
    /// A limiter of at most `most` requests, and of as many as the rate limit occupies.
    pub(crate) fn new(most: usize, pace: Pace) -> Self {
        let most = most.max(1) as f64;
        let state = LimiterState { allowed: most, in_flight: 0, lowered: None };
        Self { most, pace, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits for a permit.
    pub(crate) fn permit(&self) -> Permit<'_> {
        let mut state = self.state.lock();
        while state.in_flight as f64 >= state.allowed.floor().min(self.pace.streams().into()) {
            state = self.changed.wait_timeout(state, LOOK).0;
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
        let limiter = ConcurrencyLimiter::new(8, Pace::default());
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

    #[test]
    fn a_low_rate_has_few_requests_until_it_is_raised() {
        let pace = Pace::default();
        pace.set(Some(1_000_000));
        let limiter = ConcurrencyLimiter::new(8, pace.clone());
        let first = limiter.permit();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| drop(limiter.permit()));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!second.is_finished());
            pace.set(None);
            second.join().unwrap();
        });
        drop(first);
    }
}
