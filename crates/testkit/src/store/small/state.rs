//! The state that the threads of a store share: its habits and its data.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::habits::Habits;
use super::held::{HeldObject, HeldUpload};

/// The data of a store.
#[derive(Default)]
pub(super) struct StoreData {
    /// By `/BUCKET/KEY`.
    pub(super) objects: BTreeMap<String, HeldObject>,
    /// By id.
    pub(super) uploads: BTreeMap<String, HeldUpload>,
    pub(super) begun: u64,
}

/// The habits of a store, and its data behind a lock.
pub(super) struct SharedStore {
    pub(super) habits: Habits,
    state: Mutex<StoreData>,
}

impl SharedStore {
    /// A store that holds nothing.
    pub(super) fn new(habits: Habits) -> Self {
        Self { habits, state: Mutex::default() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, StoreData> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
