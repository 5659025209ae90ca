//! Errors that the ends in memory return on demand.

use std::collections::{HashMap, VecDeque};

use haul_core::sync::Mutex;
use haul_core::{Error, ErrorKind, RelPath, Result, Retry, Side};

use crate::Cancel;

/// A call that can fail. Where a call is about several paths, each path is a call of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum EndCall {
    Scan,
    Lookup,
    Digest,
    /// The read of one slice.
    Read,
    /// The read of a batch as a whole, about its first path.
    ReadBatch,
    Offer,
    Write,
    Clone,
    Discard,
    Link,
    Remove,
    RemoveSource,
    Finish,
}

/// The planned errors, and the number of calls.
#[derive(Default)]
pub(super) struct PlannedErrors {
    planned: Mutex<HashMap<(EndCall, RelPath), VecDeque<Error>>>,
    calls: Mutex<HashMap<(EndCall, RelPath), u32>>,
    cancel: Mutex<Option<(EndCall, Cancel)>>,
}

impl PlannedErrors {
    /// The next `times` calls return this error.
    pub(super) fn plan(&self, call: EndCall, at: &str, times: usize, error: &Error) {
        let mut planned = self.planned.lock();
        let errors = planned.entry((call, path(at))).or_default();
        errors.extend(std::iter::repeat_n(error.clone(), times));
    }

    /// The first call of this kind cancels the run.
    pub(super) fn cancel_at(&self, call: EndCall, cancel: &Cancel) {
        *self.cancel.lock() = Some((call, cancel.clone()));
    }

    /// Counts a call and returns its planned error.
    pub(super) fn meet(&self, call: EndCall, at: &RelPath) -> Result<()> {
        if let Some((planned, cancel)) = &*self.cancel.lock()
            && *planned == call
        {
            cancel.cancel();
        }
        *self.calls.lock().entry((call, at.clone())).or_default() += 1;
        let mut planned = self.planned.lock();
        let error = planned.get_mut(&(call, at.clone())).and_then(VecDeque::pop_front);
        error.map_or(Ok(()), |error| Err(error.on(at.as_bytes())))
    }

    /// The number of calls about a path.
    pub(super) fn calls(&self, call: EndCall, at: &str) -> u32 {
        self.calls.lock().get(&(call, path(at))).copied().unwrap_or_default()
    }
}

pub(super) fn path(text: &str) -> RelPath {
    RelPath::new(text.as_bytes()).unwrap()
}

pub(super) fn error(kind: ErrorKind, retry: Retry) -> Error {
    Error::new(kind, Side::Destination, "test", "planned").with_retry(retry)
}
