//! Bounds the content of the requests that are in flight at a limited rate.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use haul_core::Limiter;
use haul_core::sync::{Condvar, Mutex};

/// The content in flight, in seconds of the rate: enough for a long link. With more, the chunks of a request would wait
/// for those of so many others that a store takes the connection for dead, and an interrupted run would lose more.
const SECONDS: u64 = 3;

/// How often a request that waits looks whether the rate has changed.
const LOOK: Duration = Duration::from_millis(200);

/// Admits requests with content in one direction, in the order in which they come.
pub(super) struct ContentBudget {
    limiter: Arc<Limiter>,
    state: Mutex<BudgetState>,
    changed: Condvar,
}

#[derive(Default)]
struct BudgetState {
    /// The bytes of admitted requests.
    in_flight: u64,
    /// The numbers of the requests that wait.
    queue: VecDeque<u64>,
    next: u64,
}

/// A request that was admitted; given back on drop.
pub(super) struct AdmittedContent<'a> {
    budget: &'a ContentBudget,
    bytes: u64,
}

impl ContentBudget {
    pub(super) fn new(limiter: Arc<Limiter>) -> Self {
        Self { limiter, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until a request with so many bytes may be in flight, or until it `has_ended`. One request always may.
    pub(super) fn admit(&self, bytes: u64, has_ended: impl Fn() -> bool) -> AdmittedContent<'_> {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.queue.push_back(number);
        while (state.queue.front() != Some(&number) || !self.fits(&state, bytes)) && !has_ended() {
            state = self.changed.wait_timeout(state, LOOK).0;
        }
        state.queue.retain(|waiting| *waiting != number);
        state.in_flight += bytes;
        drop(state);
        self.changed.notify_all();
        AdmittedContent { budget: self, bytes }
    }

    fn fits(&self, state: &BudgetState, bytes: u64) -> bool {
        let most = self.limiter.rate().map_or(u64::MAX, |rate| rate.saturating_mul(SECONDS));
        state.in_flight == 0 || state.in_flight.saturating_add(bytes) <= most
    }
}

impl Drop for AdmittedContent<'_> {
    fn drop(&mut self) {
        self.budget.state.lock().in_flight -= self.bytes;
        self.budget.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_admitted_in_order_as_far_as_the_rate_needs_them() {
        let limiter = Arc::new(Limiter::default());
        let budget = ContentBudget::new(Arc::clone(&limiter));
        let never = || false;
        drop([budget.admit(u64::MAX / 4, never), budget.admit(u64::MAX / 4, never)]);
        limiter.set(Some(100));
        let large = budget.admit(1_000_000, never);
        let order = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for number in 0..3 {
                while budget.state.lock().queue.len() < number {
                    std::thread::yield_now();
                }
                let (budget, order) = (&budget, &order);
                scope.spawn(move || {
                    let admitted = budget.admit([250, 100, 10][number], never);
                    order.lock().push(number);
                    drop(admitted);
                });
            }
            while budget.state.lock().queue.len() < 3 {
                std::thread::yield_now();
            }
            assert!(order.lock().is_empty(), "one request is in flight");
            drop(large);
        });
        assert_eq!(*order.lock(), [0, 1, 2]);
        let held = budget.admit(200, never);
        drop(budget.admit(200, || true));
        drop((budget.admit(100, never), held));
        assert_eq!(budget.state.lock().in_flight, 0);
    }
}
