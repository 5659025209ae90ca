//! How many requests may be under way: fewer when a store asks for less, more again as it goes well.

use haul_core::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Answers that belong to one wave of "slow down" count once.
const WAVE: Duration = Duration::from_millis(500);

/// Gives out permits.
pub(crate) struct Governor {
    most: f64,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    allowed: f64,
    under_way: usize,
    lowered: Option<Instant>,
}

/// The right to have a request under way.
pub(crate) struct Permit<'a>(&'a Governor);

impl Governor {
    /// At most `most` at a time.
    pub(crate) fn new(most: usize) -> Self {
        let most = most.max(1) as f64;
        let state = State { allowed: most, under_way: 0, lowered: None };
        Self { most, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits until one more may be under way.
    pub(crate) fn permit(&self) -> Permit<'_> {
        let mut state = self.lock();
        while state.under_way as f64 >= state.allowed.floor() {
            state = self.changed.wait(state);
        }
        state.under_way += 1;
        Permit(self)
    }

    /// The store asked for less: half of what is under way.
    pub(crate) fn slow_down(&self) {
        let mut state = self.lock();
        if state.lowered.is_none_or(|at| at.elapsed() > WAVE) {
            state.lowered = Some(Instant::now());
            state.allowed = (state.allowed.min(state.under_way as f64) / 2.0).max(1.0);
        }
    }

    /// A request went well: one more after as many as are allowed.
    pub(crate) fn went_well(&self) {
        let mut state = self.lock();
        if state.allowed < self.most {
            state.allowed = (state.allowed + 1.0 / state.allowed).min(self.most);
            drop(state);
            self.changed.notify_all();
        }
    }

    /// How many are allowed at the moment.
    pub(crate) fn allowed(&self) -> usize {
        self.lock().allowed as usize
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.lock().under_way -= 1;
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_at_once_and_back_one_by_one() {
        let governor = Governor::new(8);
        let held: Vec<_> = (0..8).map(|_| governor.permit()).collect();
        governor.slow_down();
        governor.slow_down();
        assert_eq!(governor.allowed(), 4);
        for _ in 0..5 {
            governor.went_well();
        }
        assert_eq!(governor.allowed(), 5);
        drop(held);
        for _ in 0..100 {
            governor.went_well();
        }
        assert_eq!(governor.allowed(), 8);
    }
}
