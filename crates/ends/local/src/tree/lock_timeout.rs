//! How long the lock of a staged file is waited for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Milliseconds that the first lock is waited for.
const FIRST: u64 = 4000;

/// The timeout of the next lock. It is halved with each lock that was waited for in vain.
pub(crate) struct LockTimeout(AtomicU64);

impl Default for LockTimeout {
    fn default() -> Self {
        Self(AtomicU64::new(FIRST))
    }
}

impl LockTimeout {
    pub(crate) fn get(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }

    /// A lock was waited for in vain.
    pub(crate) fn shorten(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
    }
}
