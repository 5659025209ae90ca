//! The ends, settings, progress and result of a pipe.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use haul_core::digest::PARTS;
use haul_core::{Digest, Pace, Sink, Source};

/// Both ends of a pipe.
pub struct Pipe {
    /// The program that writes.
    pub source: Arc<dyn Source>,
    /// The program that reads.
    pub sink: Arc<dyn Sink>,
}

/// How a stream is moved.
#[derive(Clone, Copy, Debug)]
pub struct PipeSettings {
    /// How many slices may be on their way, from the source to the program that reads.
    pub window: u32,
    /// How many threads move them.
    pub threads: usize,
    /// Whether reading a slice takes a connection, and not writing it.
    pub waits: bool,
    /// Whether an empty stream is one.
    pub allow_empty: bool,
}

impl PipeSettings {
    /// For two ends that both have `buffers` for content. A slice takes one until the other program has taken it;
    /// compression may take half of all buffers. A thread that `waits` for an answer takes none meanwhile.
    #[must_use]
    pub fn within(buffers: usize, waits: bool, allow_empty: bool) -> Self {
        let window = (buffers / 2).saturating_sub(2).clamp(1, 256);
        let threads = if waits { window.min(32) } else { (buffers / 4).clamp(1, 16) };
        Self { window: u32::try_from(window).unwrap_or(1), threads, waits, allow_empty }
    }

    /// How many parts of slices may be on their way, so that the first and the last of them are within the window.
    pub(super) fn parts(&self) -> u64 {
        (u64::from(self.window.max(1)) - 1) * u64::from(PARTS) + 1
    }
}

/// Progress in bytes.
#[derive(Debug, Default)]
pub struct PipeStatus {
    /// Bytes that the first program has written, in whole slices until the end.
    pub read: AtomicU64,
    /// Bytes that the second program has taken.
    pub sent: AtomicU64,
    /// Whether the end of the stream was reached.
    pub ended: AtomicBool,
    /// The limits of its rate.
    pub pace: Pace,
}

impl PipeStatus {
    /// Nothing has moved yet.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        Self { pace, ..Self::default() }
    }
}

/// A stream that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piped {
    /// Its length in bytes.
    pub len: u64,
    /// Its digest, of both ends.
    pub digest: Digest,
}
