//! Failures before the answer about the root: if the root cannot be created, they say nothing more.

use haul_core::sync::Mutex;
use haul_core::{Error, RelPath};

/// Keeps failures until the root is answered. Nothing waits for it.
#[derive(Default)]
pub(crate) struct RootGate(Mutex<Option<Vec<(RelPath, Error)>>>);

impl RootGate {
    /// The root was found, and is not answered yet.
    pub(crate) fn close(&self) {
        self.0.lock().get_or_insert_default();
    }

    /// Keeps a failure, or gives it back if the root is answered.
    pub(crate) fn keep(&self, path: &RelPath, error: Error) -> Option<Error> {
        match &mut *self.0.lock() {
            Some(kept) => {
                kept.push((path.clone(), error));
                None
            }
            None => Some(error),
        }
    }

    /// The root is answered: returns what was kept.
    pub(crate) fn open(&self) -> Vec<(RelPath, Error)> {
        self.0.lock().take().unwrap_or_default()
    }
}
