//! The progress of hashing, also in files whose digests are not ready.

use std::sync::atomic::{AtomicU64, Ordering};

use haul_core::Source;

/// Files that one or more ends hash at the same time.
pub(crate) struct Hashing<'a> {
    ends: &'a [&'a dyn Source],
    /// The bytes of the files in requests that have begun, and in those that have ended.
    begun: AtomicU64,
    ended: AtomicU64,
}

impl<'a> Hashing<'a> {
    /// Each of these ends hashes every file.
    pub(crate) fn new(ends: &'a [&'a dyn Source]) -> Self {
        Self { ends, begun: AtomicU64::new(0), ended: AtomicU64::new(0) }
    }

    /// Calls `hash`, which asks the ends for the digests of files of `bytes` bytes.
    pub(crate) fn count<T>(&self, bytes: u64, hash: impl FnOnce() -> T) -> T {
        self.begin(bytes);
        let digests = hash();
        self.end(bytes);
        digests
    }

    /// A request for the digests of files of `bytes` bytes begins.
    pub(crate) fn begin(&self, bytes: u64) {
        self.begun.fetch_add(bytes, Ordering::Relaxed);
    }

    /// It has ended.
    pub(crate) fn end(&self, bytes: u64) {
        self.ended.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The bytes that are hashed in the requests that have not ended. The slowest end counts, as all have to be done.
    pub(crate) fn in_progress(&self) -> u64 {
        let (begun, ended) = (self.begun.load(Ordering::Relaxed), self.ended.load(Ordering::Relaxed));
        let hashed = self.ends.iter().filter_map(|end| end.hashed()).min().unwrap_or(0);
        hashed.saturating_sub(ended).min(begun.saturating_sub(ended))
    }
}
