//! Whether the file system of the root has extended attributes.

use std::sync::atomic::{AtomicBool, Ordering};

/// Remembers that a network file system has refused attributes, to save a request for each entry.
#[derive(Default)]
pub(crate) struct XattrSupport {
    refused: AtomicBool,
}

impl XattrSupport {
    /// Whether attributes are worth asking for.
    pub(crate) fn is_likely(&self) -> bool {
        !self.refused.load(Ordering::Relaxed)
    }

    /// The file system has no attributes.
    pub(crate) fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }
}
