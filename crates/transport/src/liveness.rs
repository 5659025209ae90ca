//! Signs of life of a stream.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// When a connection last sent and received, and whether it was abandoned.
#[derive(Debug)]
pub struct Liveness {
    origin: Instant,
    heard: AtomicU64,
    /// Whether the reader waits for bytes. While it does something else, silence is our own.
    listening: AtomicBool,
    sent: AtomicU64,
    /// Bytes that were sent or received, ever.
    moved: AtomicU64,
    /// When the connection is given up by itself, in milliseconds; 0 is never.
    deadline: AtomicU64,
    ended: AtomicBool,
}

impl Default for Liveness {
    fn default() -> Self {
        Self {
            origin: Instant::now(),
            heard: AtomicU64::new(0),
            listening: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            deadline: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        }
    }
}

impl Liveness {
    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Bytes came from the other end.
    pub fn heard(&self) {
        self.heard.store(self.now(), Ordering::Relaxed);
    }

    /// Its reader begins to wait for bytes.
    pub(crate) fn listen(&self) {
        if !self.listening.swap(true, Ordering::Relaxed) {
            self.heard();
        }
    }

    /// Its reader does something else.
    pub(crate) fn listened(&self) {
        self.listening.store(false, Ordering::Relaxed);
    }

    /// So many bytes came from the other end.
    pub(crate) fn received(&self, bytes: usize) {
        self.moved.fetch_add(bytes as u64, Ordering::Relaxed);
        self.heard();
    }

    /// The system accepted this many bytes for the other end.
    pub(crate) fn sent(&self, bytes: usize) {
        self.moved.fetch_add(bytes as u64, Ordering::Relaxed);
        self.sent.store(self.now(), Ordering::Relaxed);
    }

    /// Bytes that were sent or received, ever.
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Whether its reader waits for bytes, or did so last. Otherwise this end is the one that holds it up.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Relaxed)
    }

    /// How long this end has listened without receiving anything. Sent bytes are no sign of life, as a pipe accepts
    /// them for a while even if no process reads it.
    #[must_use]
    pub fn silent_for(&self) -> Duration {
        if !self.listening.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        Duration::from_millis(self.now().saturating_sub(self.heard.load(Ordering::Relaxed)))
    }

    /// For how long nothing was sent.
    #[must_use]
    pub fn quiet_for(&self) -> Duration {
        Duration::from_millis(self.now().saturating_sub(self.sent.load(Ordering::Relaxed)))
    }

    /// The connection is given up: its reader and its writer end within a second.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Gives the connection up `after` this time unless it is called again; `None` takes it back.
    pub fn end_after(&self, after: Option<Duration>) {
        let deadline =
            after.map_or(0, |after| self.now() + u64::try_from(after.as_millis()).unwrap_or(u64::MAX / 2));
        self.deadline.store(deadline, Ordering::Relaxed);
    }

    /// Whether the connection was given up.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        let deadline = self.deadline.load(Ordering::Relaxed);
        self.ended.load(Ordering::Relaxed) || (deadline > 0 && self.now() > deadline)
    }
}
