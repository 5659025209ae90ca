//! Requests to object stores, which are paid by their number.

use haul_object::{RequestKind, Requests};
use haul_store::Cost;
use indicatif::HumanCount;
use serde::Serialize;

use super::wording::count;

/// How many requests of each kind were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct RequestCounts {
    put: u64,
    get: u64,
    list: u64,
    delete: u64,
    retried: u64,
}

impl RequestCounts {
    /// Adds what one store was asked.
    pub(crate) fn add(&mut self, requests: &Requests) {
        self.put += requests.of(RequestKind::Put);
        self.get += requests.of(RequestKind::Get);
        self.list += requests.of(RequestKind::List);
        self.delete += requests.of(RequestKind::Delete);
        self.retried += requests.retries();
    }

    /// Adds what will be asked.
    pub(crate) fn expect(&mut self, cost: Cost) {
        self.put += cost.put;
        self.get += cost.get;
        self.list += cost.list;
        self.delete += cost.delete;
    }

    /// Adds what others were asked.
    pub(crate) fn join(&mut self, other: Self) {
        self.put += other.put;
        self.get += other.get;
        self.list += other.list;
        self.delete += other.delete;
        self.retried += other.retried;
    }

    /// For people: only what there was.
    pub(super) fn text(self) -> String {
        let kinds = [(self.put, "PUT"), (self.get, "GET"), (self.list, "LIST"), (self.delete, "DELETE")];
        let kinds = kinds.into_iter().filter(|(number, _)| *number > 0);
        let kinds: Vec<String> =
            kinds.map(|(number, name)| format!("{} {name}", HumanCount(number))).collect();
        let all = self.put + self.get + self.list + self.delete;
        let again = if self.retried > 0 {
            format!(", {} tried again", HumanCount(self.retried))
        } else {
            String::new()
        };
        format!("{}: {}{again}", count(all, "request", "requests"), kinds.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_there_was() {
        let counts = RequestCounts { put: 1200, get: 1, retried: 2, ..RequestCounts::default() };
        assert_eq!(counts.text(), "1,201 requests: 1,200 PUT, 1 GET, 2 tried again");
    }
}
