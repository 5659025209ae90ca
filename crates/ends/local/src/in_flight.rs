//! What is being done on a network file system, so that what a server does not answer can be named.

use haul_core::sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use haul_core::{HungOperation, RelPath};

use super::root::Root;

/// The operations under way, in the order of their beginning.
#[derive(Default)]
pub(super) struct InFlight(Mutex<(u64, BTreeMap<u64, Operation>)>);

struct Operation {
    since: Instant,
    what: &'static str,
    path: RelPath,
}

/// An operation; over on drop.
pub(super) struct Guard<'a>(&'a InFlight, u64);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.lock().1.remove(&self.1);
    }
}

impl InFlight {
    fn lock(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Operation>)> {
        self.0.lock()
    }

    fn begin(&self, what: &'static str, path: &RelPath) -> Guard<'_> {
        let mut state = self.lock();
        state.0 += 1;
        let number = state.0;
        state.1.insert(number, Operation { since: Instant::now(), what, path: path.clone() });
        Guard(self, number)
    }
}

impl Root {
    /// Something is done with the entry at `path` until the guard is dropped. Only where it may never end.
    pub(super) fn doing(&self, what: &'static str, path: &RelPath) -> Option<Guard<'_>> {
        self.is_network_fs().then(|| self.in_flight.begin(what, path))
    }

    /// The operations that have been under way for so long.
    pub(super) fn hung(&self, patience: Duration) -> Vec<HungOperation> {
        if self.ops.is_waited_for() {
            // It may be the limit that they wait for.
            return Vec::new();
        }
        let state = self.in_flight.lock();
        let late = state.1.values().take_while(|one| one.since.elapsed() >= patience);
        late.map(|one| HungOperation { operation: one.what.to_owned(), path: self.shown(&one.path) })
            .collect()
    }
}
