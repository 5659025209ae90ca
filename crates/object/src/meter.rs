//! Counts requests by kind, as providers bill them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Kinds of requests, as providers bill them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Writes: objects, parts, creation and completion of uploads, copies.
    Put,
    /// Reads of content or metadata of one object.
    Get,
    /// Lists objects, parts or uploads.
    List,
    /// Deletes objects or aborts uploads.
    Delete,
}

/// Counts of requests.
#[derive(Debug, Default)]
pub struct Requests {
    counts: [AtomicU64; 4],
    retries: AtomicU64,
}

impl Requests {
    /// Counts a request.
    pub(crate) fn count(&self, kind: RequestKind) {
        self.counts[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a retry.
    pub(crate) fn retried(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of requests of a kind.
    #[must_use]
    pub fn of(&self, kind: RequestKind) -> u64 {
        self.counts[kind as usize].load(Ordering::Relaxed)
    }

    /// The number of retries.
    #[must_use]
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }
}
