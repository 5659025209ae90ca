//! Estimates the requests of a run, besides those that `-n` makes too.

use haul_core::sync::Mutex;
use std::sync::Arc;

use haul_core::SLICE_LEN;
use haul_core::digest::slice_count;
use haul_core::event::Action;
use haul_object::Client;

use super::large::cut;
use super::server_side_copy::RANGE;

/// Requests by kind, as providers bill them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Requests that write.
    pub put: u64,
    /// Requests that read content or ask about one object.
    pub get: u64,
    /// Requests that list.
    pub list: u64,
    /// Requests that delete.
    pub delete: u64,
}

impl Cost {
    /// Adds `other`.
    pub fn add(&mut self, other: Self) {
        self.put += other.put;
        self.get += other.get;
        self.list += other.list;
        self.delete += other.delete;
    }
}

/// Counts the requests between two locations, of which at least one is in a store.
pub struct Bill {
    source: Option<Arc<Client>>,
    destination: Option<Arc<Client>>,
    /// The store copies objects itself.
    within: bool,
    state: Mutex<BillState>,
}

#[derive(Default)]
struct BillState {
    cost: Cost,
    removed: u64,
    /// The incomplete uploads were already listed.
    listed: bool,
}

impl Bill {
    /// For a run from `source` to `destination`; `None` is a location outside of any store.
    #[must_use]
    pub fn new(source: Option<Arc<Client>>, destination: Option<Arc<Client>>, within: bool) -> Self {
        Self { source, destination, within, state: Mutex::default() }
    }

    /// Counts the requests for one entry. `len` is the length of its content in bytes.
    pub fn entry(&self, action: Action, len: u64) {
        let mut state = self.state.lock();
        let cost = match action {
            Action::Copied | Action::Replaced => self.file(len, &mut state),
            Action::Made => self.written(0, 1),
            Action::Updated => self.written(self.proof(len, self.destination.as_ref()), 1),
            // The new name was looked up already; the existing one was not.
            Action::Linked => self.written(1 + self.proof(len, self.destination.as_ref()), 1),
            Action::Removed => {
                state.removed += 1;
                Cost::default()
            }
            // The object and its sidecar are looked at before, and so is the one at the destination.
            Action::RemovedAtSource => {
                let (from, to) = (self.source.is_some(), self.destination.is_some());
                let get = 2 * u64::from(from) + u64::from(to);
                Cost { get, delete: u64::from(from), ..Cost::default() }
            }
            Action::Left | Action::Same => Cost::default(),
        };
        state.cost.add(cost);
    }

    /// The requests counted so far.
    #[must_use]
    pub fn cost(&self) -> Cost {
        let state = self.state.lock();
        let mut cost = state.cost;
        if let Some(client) = &self.destination {
            cost.delete += state.removed.div_ceil(client.terms().delete_batch as u64);
        }
        cost
    }

    /// Requests to the destination, if it is in a store.
    fn written(&self, get: u64, put: u64) -> Cost {
        if self.destination.is_some() { Cost { get, put, ..Cost::default() } } else { Cost::default() }
    }

    /// Requests for the digest of an object. A large file has a sidecar, unless the provider takes metadata at the end.
    fn proof(&self, len: u64, client: Option<&Arc<Client>>) -> u64 {
        u64::from(len > SLICE_LEN && client.is_some_and(|client| !client.terms().metadata_at_end))
    }

    fn file(&self, len: u64, state: &mut BillState) -> Cost {
        if let (true, Some(client)) = (self.within, &self.destination) {
            let parts = if len > client.terms().max_copy_len { len.div_ceil(RANGE) + 1 } else { 0 };
            return Cost { get: 1 + self.proof(len, Some(client)), put: 1 + parts, ..Cost::default() };
        }
        let mut cost = Cost::default();
        if self.source.is_some() {
            cost.get += if len == 0 { 0 } else { u64::from(slice_count(len)) };
            cost.get += self.proof(len, self.source.as_ref());
        }
        let Some(client) = &self.destination else { return cost };
        if len <= SLICE_LEN {
            cost.put += 1;
            return cost;
        }
        cost.list += u64::from(!client.terms().lists_uploads || !std::mem::replace(&mut state.listed, true));
        // The parts and the completion.
        cost.put += u64::from(cut(len, client.terms().max_parts).1) + 1;
        if !client.terms().metadata_at_end {
            // The creation of the upload, the sidecar, and the check of an object with the name of the sidecar.
            cost.put += 2;
            cost.get += 1;
        }
        cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::{ObjectKind, ObjectPlace, Side, StoreNumber};
    use std::time::Duration;

    fn client(kind: ObjectKind) -> Arc<Client> {
        let place =
            ObjectPlace { kind, bucket: "b".to_owned(), key: String::new(), store: StoreNumber::default() };
        let endpoint = Some("http://127.0.0.1:1/account".to_owned());
        let endpoint =
            endpoint.map(|at| if kind == ObjectKind::Az { at } else { at.replace("/account", "") });
        let settings = haul_object::StoreSettings {
            endpoint,
            timeout: Duration::from_secs(1),
            ..haul_object::StoreSettings::default()
        };
        let client = haul_object::open(&place, Side::Source, &settings, Arc::default(), Arc::new(|_| ()));
        Arc::new(client.unwrap())
    }

    fn cost(source: Option<ObjectKind>, to: Option<ObjectKind>, done: &[(Action, u64)]) -> [u64; 4] {
        let bill = Bill::new(source.map(client), to.map(client), source.is_some() && source == to);
        done.iter().for_each(|(action, len)| bill.entry(*action, *len));
        let Cost { put, get, list, delete } = bill.cost();
        [put, get, list, delete]
    }

    #[test]
    fn each_direction_has_its_requests() {
        use Action::{Copied, Linked, Made, Removed, Updated};
        let (s3, az) = (Some(ObjectKind::S3), Some(ObjectKind::Az));
        let large = 33 << 20;
        let done = [(Copied, large), (Copied, large), (Copied, 5), (Made, 0), (Updated, large), (Removed, 0)];
        // Per large file: creation, five parts, completion, sidecar.
        assert_eq!(cost(None, s3, &done), [8 + 8 + 1 + 1 + 1, 1 + 1 + 1, 1, 1]);
        assert_eq!(cost(None, az, &done), [6 + 6 + 1 + 1 + 1, 0, 2, 1]);
        assert_eq!(cost(s3, None, &done), [0, 10 + 10 + 1, 0, 0]);
        assert_eq!(cost(az, None, &done), [0, 9 + 9 + 1, 0, 0]);
        assert_eq!(cost(s3, s3, &[(Copied, large), (Copied, 0)]), [2, 3, 0, 0]);
        assert_eq!(cost(s3, s3, &[(Copied, 6 << 30)]), [8, 2, 0, 0]);
        assert_eq!(cost(None, s3, &[(Linked, 5)]), [1, 1, 0, 0]);
        assert_eq!(cost(None, s3, &[(Removed, 0); 1001]), [0, 0, 0, 2]);
        assert_eq!(cost(None, az, &[(Removed, 0); 1001]), [0, 0, 0, 1001]);
    }
}
