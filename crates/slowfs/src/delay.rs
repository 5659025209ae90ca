//! A timer queue: any number of requests wait at the same time, and a few threads run those that are due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// Threads that run due work.
const THREADS: usize = 6;

type DelayedAction = Box<dyn FnOnce() + Send>;

/// Runs work at its due time.
pub(crate) struct Later {
    shared: Arc<SharedDelay>,
    threads: Vec<JoinHandle<()>>,
}

struct SharedDelay {
    state: Mutex<DelayState>,
    /// Wakes the thread that waits for the next due time: an earlier job has arrived.
    earlier: Condvar,
    /// Wakes one of the other threads: a job is due, or nobody watches the clock.
    needed: Condvar,
}

#[derive(Default)]
struct DelayState {
    due: BinaryHeap<Reverse<DelayedJob>>,
    number: u64,
    /// A thread waits for the next due time. The others wait to take its place.
    watched: bool,
    closed: bool,
}

struct DelayedJob {
    due: Instant,
    number: u64,
    work: DelayedAction,
}

impl PartialEq for DelayedJob {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for DelayedJob {}

impl PartialOrd for DelayedJob {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DelayedJob {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

impl Later {
    /// Starts the threads; each calls `prepare` first.
    pub(crate) fn start(prepare: fn()) -> std::io::Result<Self> {
        let shared = Arc::new(SharedDelay {
            state: Mutex::default(),
            earlier: Condvar::new(),
            needed: Condvar::new(),
        });
        let mut threads = Vec::new();
        for number in 0..THREADS {
            let shared = shared.clone();
            let run = move || {
                prepare();
                shared.run();
            };
            threads.push(std::thread::Builder::new().name(format!("slowfs-{number}")).spawn(run)?);
        }
        Ok(Self { shared, threads })
    }

    /// Schedules `work` at `due`.
    pub(crate) fn at(&self, due: Instant, work: DelayedAction) {
        let mut state = self.shared.lock();
        state.number += 1;
        let number = state.number;
        let first = state.due.peek().is_none_or(|Reverse(first)| due < first.due);
        state.due.push(Reverse(DelayedJob { due, number, work }));
        let watched = state.watched;
        drop(state);
        if first {
            let signal = if watched { &self.shared.earlier } else { &self.shared.needed };
            signal.notify_one();
        }
    }
}

impl SharedDelay {
    fn lock(&self) -> MutexGuard<'_, DelayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.lock();
        loop {
            if state.closed {
                return;
            }
            let now = Instant::now();
            let wait = match state.due.peek() {
                None => None,
                Some(Reverse(first)) if first.due <= now => {
                    let Some(Reverse(job)) = state.due.pop() else { continue };
                    let more = !state.due.is_empty() && !state.watched;
                    drop(state);
                    if more {
                        self.needed.notify_one();
                    }
                    (job.work)();
                    state = self.lock();
                    continue;
                }
                Some(Reverse(first)) => Some(first.due - now),
            };
            state = match wait {
                Some(wait) if !state.watched => {
                    state.watched = true;
                    let waited = self.earlier.wait_timeout(state, wait);
                    let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
                    state.watched = false;
                    state
                }
                _ => self.needed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.earlier.notify_all();
        self.shared.needed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic has been printed already.
            let _ = thread.join();
        }
    }
}
