//! Caches where credentials come from, until they are refused.

use haul_core::sync::Mutex;

use crate::fault::Fault;

/// The source of credentials, once it was found.
pub(crate) struct CachedLogin<S>(Mutex<Option<S>>);

impl<S> Default for CachedLogin<S> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<S: Clone> CachedLogin<S> {
    /// The cached source, or the result of `find`, which is then cached.
    ///
    /// # Errors
    /// Those of `find`, which is called again the next time.
    pub(crate) fn or_find(&self, find: impl FnOnce() -> Result<S, Fault>) -> Result<S, Fault> {
        let mut found = self.0.lock();
        match &*found {
            Some(source) => Ok(source.clone()),
            None => Ok(found.insert(find()?).clone()),
        }
    }

    /// The cached source.
    pub(crate) fn get(&self) -> Option<S> {
        self.0.lock().clone()
    }

    /// Caches a source.
    pub(crate) fn keep(&self, source: S) {
        *self.0.lock() = Some(source);
    }

    /// Drops the cached source because its credentials were refused. The environment of a process does not change, but
    /// files do.
    pub(crate) fn forget(&self) {
        *self.0.lock() = None;
    }
}
