//! The work that a walk has still to do, shared by its threads.

use haul_core::sync::{Condvar, Mutex};

use haul_core::{Error, Result};

/// Work that makes more work, until none is left. Last in, first out, so that little is held.
pub struct Frontier<W> {
    state: Mutex<FrontierState<W>>,
    changed: Condvar,
}

struct FrontierState<W> {
    work: Vec<W>,
    /// Threads that took work and may add more.
    busy: usize,
    stopped: bool,
    /// The first error.
    failed: Option<Error>,
}

impl<W> Default for Frontier<W> {
    fn default() -> Self {
        let state = FrontierState { work: Vec::new(), busy: 0, stopped: false, failed: None };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }
}

impl<W> Frontier<W> {
    /// Adds work. The last item is taken first.
    pub fn add(&self, work: impl IntoIterator<Item = W>) {
        self.state.lock().work.extend(work);
        self.changed.notify_all();
    }

    /// Takes some of the work: `share` of the number of items, at least one. Waits, after a call of `idle`, while
    /// there is none and other threads may add some. `None` when all is done or stopped. The caller must call
    /// [`done`](Self::done) at the end of the work that it took.
    pub fn take(&self, share: impl Fn(usize) -> usize, idle: impl FnOnce()) -> Option<Vec<W>> {
        let mut idle = Some(idle);
        let mut state = self.state.lock();
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
                state = self.state.lock();
            } else {
                state = self.changed.wait(state);
            }
        }
    }

    /// Ends the work that was taken. The first error stops all threads.
    pub fn done(&self, done: Result<()>) {
        let mut state = self.state.lock();
        state.busy -= 1;
        if let Err(error) = done {
            state.failed.get_or_insert(error);
            state.stopped = true;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Stops all threads: no more work is taken.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Whether the work was stopped.
    pub fn is_stopped(&self) -> bool {
        self.state.lock().stopped
    }

    /// The result of all work.
    ///
    /// # Errors
    /// The first error of the work.
    pub fn end(self) -> Result<()> {
        self.state.into_inner().failed.map_or(Ok(()), Err)
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
    fn all_work_is_done_that_work_adds() {
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
    fn an_error_stops_all_threads() {
        let step = |frontier: &Frontier<u32>, depth: u32| {
            frontier.add([depth + 1, depth + 1]);
            if depth < 40 { Ok(()) } else { Err(Error::new(ErrorKind::Io, Side::Source, "list", "no")) }
        };
        assert_eq!(walk(3, step).unwrap_err().kind(), ErrorKind::Io);
    }
}
