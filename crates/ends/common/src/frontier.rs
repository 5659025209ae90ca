//! What a walk has still to look at, shared by its threads.

use haul_core::sync::{Condvar, Mutex, MutexGuard};

use haul_core::{Error, Result};

/// Work that makes more work, until there is none left. Last in, first out: what is held stays little.
pub struct Frontier<W> {
    state: Mutex<State<W>>,
    changed: Condvar,
}

struct State<W> {
    work: Vec<W>,
    /// Threads that took some and may add more.
    busy: usize,
    stopped: bool,
    /// What ended it.
    failed: Option<Error>,
}

impl<W> Default for Frontier<W> {
    fn default() -> Self {
        let state = State { work: Vec::new(), busy: 0, stopped: false, failed: None };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }
}

impl<W> Frontier<W> {
    /// Adds work; the last of it is taken first.
    pub fn add(&self, work: impl IntoIterator<Item = W>) {
        self.lock().work.extend(work);
        self.changed.notify_all();
    }

    /// Some of the work: as much as `share` says of how much there is, one at least. Waits while there is none and
    /// others may add more, after `idle` was called; `None` when all is done or stopped. Each that was taken is to be
    /// [`done`](Self::done).
    pub fn take(&self, share: impl Fn(usize) -> usize, idle: impl FnOnce()) -> Option<Vec<W>> {
        let mut idle = Some(idle);
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            if !state.work.is_empty() {
                let len = state.work.len();
                state.busy += 1;
                return Some(state.work.split_off(len - share(len).clamp(1, len)));
            }
            if state.busy == 0 {
                return None;
            }
            if let Some(idle) = idle.take() {
                drop(state);
                idle();
                state = self.lock();
            } else {
                state = self.changed.wait(state);
            }
        }
    }

    /// What was taken is done. The first error stops all.
    pub fn done(&self, done: Result<()>) {
        let mut state = self.lock();
        state.busy -= 1;
        if let Err(error) = done {
            state.failed.get_or_insert(error);
            state.stopped = true;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Nothing more is taken.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// How it ended.
    ///
    /// # Errors
    /// The first of those that stopped it.
    pub fn end(self) -> Result<()> {
        self.state.into_inner().failed.map_or(Ok(()), Err)
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use haul_core::{ErrorKind, Side};

    use super::*;

    fn walk(threads: usize, step: impl Fn(&Frontier<u32>, u32) -> Result<()> + Sync) -> Result<()> {
        let frontier = Frontier::default();
        frontier.add([8]);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some(work) = frontier.take(|len| len / 2, || ()) {
                        frontier.done(work.into_iter().try_for_each(|one| step(&frontier, one)));
                    }
                });
            }
        });
        frontier.end()
    }

    #[test]
    fn work_that_makes_work_is_all_done() {
        let seen = AtomicUsize::new(0);
        let step = |frontier: &Frontier<u32>, depth: u32| {
            seen.fetch_add(1, Ordering::Relaxed);
            frontier.add(depth.checked_sub(1).into_iter().flat_map(|less| [less, less]));
            Ok(())
        };
        walk(4, step).unwrap();
        assert_eq!(seen.into_inner(), (1 << 9) - 1);
    }

    #[test]
    fn an_error_ends_it_for_all() {
        let step = |frontier: &Frontier<u32>, depth: u32| {
            frontier.add([depth + 1, depth + 1]);
            if depth < 40 { Ok(()) } else { Err(Error::new(ErrorKind::Io, Side::Source, "list", "no")) }
        };
        assert_eq!(walk(3, step).unwrap_err().kind(), ErrorKind::Io);
    }
}
