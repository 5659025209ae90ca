//! Processes the blocks of a stream on several threads and returns the results in order.

use std::collections::VecDeque;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};
use haul_core::{Error, ErrorKind, Result, Side};

/// Blocks that are queued besides those in work, so that no thread waits for the producer.
const WAITING: usize = 2;

/// Several worker threads, which end when this is dropped.
pub(crate) struct Ordered<I, O> {
    jobs: Option<Sender<(I, Sender<O>)>>,
    results: VecDeque<Receiver<O>>,
    depth: usize,
    threads: Vec<JoinHandle<()>>,
}

impl<I: Send + 'static, O: Send + 'static> Ordered<I, O> {
    /// Starts `count` threads, each with a `tool` of its own.
    ///
    /// # Errors
    /// That of starting the first thread.
    pub(crate) fn start<T: Send + 'static>(
        name: &str,
        count: usize,
        tool: impl Fn() -> T,
        work: fn(&mut T, I) -> O,
    ) -> Result<Self> {
        let depth = depth(count);
        let (jobs, queue) = bounded::<(I, Sender<O>)>(depth);
        let mut this = Self { jobs: Some(jobs), results: VecDeque::new(), depth, threads: Vec::new() };
        for _ in 0..count {
            let (mut tool, queue) = (tool(), queue.clone());
            let each = move || {
                for (piece, result) in queue {
                    // After a failure nobody receives the result.
                    let _ = result.send(work(&mut tool, piece));
                }
            };
            match thread::Builder::new().name(name.to_owned()).spawn(each) {
                Ok(thread) => this.threads.push(thread),
                Err(error) if this.threads.is_empty() => return Err(haul_threads::refused(&error)),
                // The threads that could be started suffice.
                Err(_) => break,
            }
        }
        Ok(this)
    }

    /// Whether no further block is accepted until a result is taken.
    pub(crate) fn is_full(&self) -> bool {
        self.results.len() >= self.depth
    }

    /// Queues a block.
    pub(crate) fn submit(&mut self, piece: I) {
        let (result, waiting) = bounded(1);
        if let Some(jobs) = &self.jobs {
            // Fails only if no thread is left; then `next` reports the lost result.
            let _ = jobs.send((piece, result));
        }
        self.results.push_back(waiting);
    }

    /// Queues a result that is already known, behind those of the blocks before.
    pub(crate) fn put(&mut self, done: O) {
        let (result, waiting) = bounded(1);
        let _ = result.send(done);
        self.results.push_back(waiting);
    }

    /// Waits for the result of the oldest block; `None` if none is queued.
    ///
    /// # Errors
    /// `Io` if its thread has died.
    pub(crate) fn next(&mut self) -> Result<Option<O>> {
        let Some(result) = self.results.pop_front() else { return Ok(None) };
        let lost = |_| {
            Error::new(ErrorKind::Io, Side::Local, "work on the stream", "a thread has ended without a word")
        };
        result.recv().map(Some).map_err(lost)
    }
}

impl<I, O> Drop for Ordered<I, O> {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has reported why.
            let _ = thread.join();
        }
    }
}

/// Blocks in flight with so many threads.
pub(crate) fn depth(threads: usize) -> usize {
    threads + WAITING
}

/// The number of threads that fit into `memory` bytes, if each takes `each` and each block in flight `piece`; at least
/// one, and no more than there are CPUs.
pub(crate) fn threads_in(memory: u64, each: u64, piece: u64) -> usize {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let fit = memory.saturating_sub(piece * WAITING as u64) / (each + piece);
    usize::try_from(fit).unwrap_or(cores).clamp(1, cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_blocks() {
        let work = |seen: &mut u64, piece: u64| {
            *seen += 1;
            thread::sleep(std::time::Duration::from_millis(piece * 7 % 5));
            piece * 10
        };
        let mut ordered = Ordered::start("test", 3, || 0, work).unwrap();
        let (mut given, mut taken) = (0, Vec::new());
        while taken.len() < 50 {
            while given < 50 && !ordered.is_full() {
                if given % 7 == 3 {
                    ordered.put(given * 10);
                } else {
                    ordered.submit(given);
                }
                given += 1;
            }
            taken.extend(ordered.next().unwrap());
        }
        assert!(ordered.next().unwrap().is_none());
        assert!(taken.iter().copied().eq((0..50).map(|piece| piece * 10)));
    }

    #[test]
    fn memory_bounds_the_number_of_threads() {
        assert_eq!(threads_in(0, 1, 1), 1);
        assert!(threads_in(u64::MAX, 1, 1) >= 1);
    }
}
