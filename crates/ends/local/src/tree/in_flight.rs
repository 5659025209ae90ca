//! The operations in flight on a network file system, to name those that the server does not answer.

use haul_core::sync::Mutex;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use haul_core::RelPath;

/// Operations in the order of their start.
#[derive(Default)]
pub(crate) struct OperationsInFlight(Mutex<(u64, BTreeMap<u64, Operation>)>);

struct Operation {
    since: Instant,
    what: &'static str,
    path: RelPath,
}

/// An operation in flight; it ends on drop.
pub(crate) struct OperationGuard<'a>(&'a OperationsInFlight, u64);

impl Drop for OperationGuard<'_> {
    fn drop(&mut self) {
        self.0.0.lock().1.remove(&self.1);
    }
}

impl OperationsInFlight {
    /// Counts an operation as in flight until the guard is dropped.
    pub(crate) fn begin(&self, what: &'static str, path: &RelPath) -> OperationGuard<'_> {
        let mut state = self.0.lock();
        state.0 += 1;
        let number = state.0;
        state.1.insert(number, Operation { since: Instant::now(), what, path: path.clone() });
        OperationGuard(self, number)
    }

    /// The operations that have run for `timeout` or longer.
    pub(crate) fn older_than(&self, timeout: Duration) -> Vec<(&'static str, RelPath)> {
        let state = self.0.lock();
        let late = state.1.values().take_while(|one| one.since.elapsed() >= timeout);
        late.map(|one| (one.what, one.path.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_reported_until_it_ends() {
        let in_flight = OperationsInFlight::default();
        let path = RelPath::new(b"a/b").unwrap();
        let first = in_flight.begin("write", &path);
        let second = in_flight.begin("read", &RelPath::root());
        assert_eq!(in_flight.older_than(Duration::from_secs(60)), []);
        drop(second);
        assert_eq!(in_flight.older_than(Duration::ZERO), [("write", path)]);
        drop(first);
        assert_eq!(in_flight.older_than(Duration::ZERO), []);
    }
}
