//! Counts of requests to object stores, which are charged by their number.

use haul_object::{RequestKind, Requests};
use haul_store::Cost;
use serde::Serialize;

/// Requests of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestCounts {
    /// Writes.
    pub put: u64,
    /// Reads.
    pub get: u64,
    /// Listings.
    pub list: u64,
    /// Removals.
    pub delete: u64,
    /// Requests that were retried, of any kind.
    pub retried: u64,
}

impl RequestCounts {
    /// The requests made to one store.
    #[must_use]
    pub fn of(requests: &Requests) -> Self {
        Self {
            put: requests.of(RequestKind::Put),
            get: requests.of(RequestKind::Get),
            list: requests.of(RequestKind::List),
            delete: requests.of(RequestKind::Delete),
            retried: requests.retries(),
        }
    }

    /// Adds estimated requests.
    pub fn add_cost(&mut self, cost: Cost) {
        self.put += cost.put;
        self.get += cost.get;
        self.list += cost.list;
        self.delete += cost.delete;
    }

    /// Adds other counts.
    pub fn join(&mut self, other: Self) {
        self.put += other.put;
        self.get += other.get;
        self.list += other.list;
        self.delete += other.delete;
        self.retried += other.retried;
    }
}
