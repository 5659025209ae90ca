//! How many requests were made, by kind: stores are paid by it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Kinds of requests, as providers bill them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What writes: objects, parts, the beginning and the end of uploads, copies.
    Put,
    /// What reads content or asks about one object.
    Get,
    /// What lists objects, parts or uploads.
    List,
    /// What removes objects or gives up uploads.
    Delete,
}

/// Counts of requests.
#[derive(Debug, Default)]
pub struct Requests {
    counts: [AtomicU64; 4],
    retries: AtomicU64,
}

impl Requests {
    /// One more.
    pub(crate) fn count(&self, kind: Kind) {
        self.counts[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// One of them had been asked before.
    pub(crate) fn retried(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// How many of a kind there were.
    #[must_use]
    pub fn of(&self, kind: Kind) -> u64 {
        self.counts[kind as usize].load(Ordering::Relaxed)
    }

    /// How many of all were asked again.
    #[must_use]
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }
}
