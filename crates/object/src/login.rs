//! Where a login comes from, found once and kept until it is refused.

use haul_core::sync::{Mutex, MutexGuard};

use crate::fault::Fault;

/// What was found, if it was looked for.
pub(crate) struct Found<S>(Mutex<Option<S>>);

impl<S> Default for Found<S> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<S: Clone> Found<S> {
    /// What was found before, or what `find` finds now.
    ///
    /// # Errors
    /// Those of `find`; it is asked again the next time.
    pub(crate) fn or_find(&self, find: impl FnOnce() -> Result<S, Fault>) -> Result<S, Fault> {
        let mut found = self.lock();
        match &*found {
            Some(source) => Ok(source.clone()),
            None => Ok(found.insert(find()?).clone()),
        }
    }

    /// What was found before.
    pub(crate) fn get(&self) -> Option<S> {
        self.lock().clone()
    }

    /// Keeps what was found.
    pub(crate) fn keep(&self, source: S) {
        *self.lock() = Some(source);
    }

    /// Forgets it, because it is refused: the environment of a process does not change, but files do.
    pub(crate) fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<S>> {
        self.0.lock()
    }
}
