//! What the threads of a store share: how it is, and what it holds.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::habits::Habits;
use super::held::{Object, Upload};

/// What it holds.
#[derive(Default)]
pub(super) struct State {
    /// By `/BUCKET/KEY`.
    pub(super) objects: BTreeMap<String, Object>,
    /// By id.
    pub(super) uploads: BTreeMap<String, Upload>,
    pub(super) begun: u64,
}

/// What the threads of a store share.
pub(super) struct Shared {
    pub(super) habits: Habits,
    state: Mutex<State>,
}

impl Shared {
    /// A store that holds nothing.
    pub(super) fn new(habits: Habits) -> Self {
        Self { habits, state: Mutex::default() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
