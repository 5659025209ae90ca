//! Memory for content: a budget that is enforced by the type that holds it.

use crate::sync::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;

/// Bytes of content that one buffer holds at most; also the most that one batch carries.
pub const BUFFER_LEN: usize = crate::digest::SLICE_LEN as usize;

/// A fixed number of buffers of [`BUFFER_LEN`] bytes. Taking one when all are out waits: that is the
/// back-pressure of the whole program.
#[derive(Clone)]
pub struct BufferPool(Arc<Shared>);

struct Shared {
    /// Buffers that there may be at most.
    count: usize,
    state: Mutex<State>,
    returned: Condvar,
}

struct State {
    free: Vec<Vec<u8>>,
    /// Buffers that may still be made.
    unmade: usize,
}

impl BufferPool {
    /// A pool that never holds more than `bytes` in buffers, at least two of them.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let count = usize::try_from(bytes / BUFFER_LEN as u64).unwrap_or(usize::MAX).max(2);
        Self(Arc::new(Shared {
            count,
            state: Mutex::new(State { free: Vec::new(), unmade: count }),
            returned: Condvar::new(),
        }))
    }

    /// An empty buffer; waits until there is one.
    #[must_use]
    pub fn take(&self) -> Buffer {
        let mut state = self.lock();
        loop {
            if let Some(bytes) = state.free.pop() {
                return Buffer { bytes, len: 0, pool: Some(self.clone()) };
            }
            if state.unmade > 0 {
                state.unmade -= 1;
                drop(state);
                // Zeroed memory comes from the system untouched: pages cost nothing until they are filled.
                return Buffer { bytes: vec![0; BUFFER_LEN], len: 0, pool: Some(self.clone()) };
            }
            state = self.0.returned.wait(state);
        }
    }

    /// Buffers that there may be at most.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.count
    }

    /// Up to `count` buffers to be kept for good, as long as half of the pool, and two, are left. Never waits; none of them was
    /// filled before, so they take no memory until they are.
    #[must_use]
    pub fn reserve(&self, count: usize) -> Vec<Buffer> {
        let mut state = self.lock();
        let spare = state.unmade.saturating_sub((self.0.count / 2).max(2)).min(count);
        state.unmade -= spare;
        let make = |_| Buffer { bytes: vec![0; BUFFER_LEN], len: 0, pool: Some(self.clone()) };
        (0..spare).map(make).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }
}

/// Bytes that go back to their pool when dropped.
#[derive(Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    len: usize,
    pool: Option<BufferPool>,
}

impl Buffer {
    /// The bytes that it holds.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The same, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }

    /// How many bytes fit in still.
    #[must_use]
    pub fn room(&self) -> usize {
        self.bytes.len() - self.len
    }

    /// Makes it `len` bytes longer and gives these to be filled; what is in them before is unspecified.
    /// `None` if they do not fit ([`Buffer::room`]).
    pub fn grow(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > self.room() {
            return None;
        }
        let start = self.len;
        self.len += len;
        Some(&mut self.bytes[start..start + len])
    }

    /// Moves `len` bytes from `from` to `to`, both within what it holds.
    ///
    /// # Panics
    /// If they are not.
    pub fn shift(&mut self, from: usize, to: usize, len: usize) {
        if from != to {
            self.bytes[..self.len].copy_within(from..from + len, to);
        }
    }

    /// Exchanges what both hold. Each still goes back to its own pool.
    pub fn exchange(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.bytes, &mut other.bytes);
        std::mem::swap(&mut self.len, &mut other.len);
    }

    /// Forgets all bytes from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.lock().free.push(std::mem::take(&mut self.bytes));
            pool.0.returned.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_than_the_budget() {
        let pool = BufferPool::new(3 * BUFFER_LEN as u64);
        let held = [pool.take(), pool.take(), pool.take()];
        let waiter = {
            let pool = pool.clone();
            std::thread::spawn(move || drop(pool.take()))
        };
        assert!(!waiter.is_finished());
        drop(held);
        waiter.join().unwrap();
    }

    #[test]
    fn what_is_reserved_leaves_half_of_the_pool() {
        let pool = BufferPool::new(8 * BUFFER_LEN as u64);
        let first = pool.reserve(3);
        assert_eq!((pool.count(), first.len(), pool.reserve(3).len(), pool.reserve(3).len()), (8, 3, 1, 0));
        drop([pool.take(), pool.take(), pool.take(), pool.take()]);
        assert_eq!(BufferPool::new(0).reserve(9).len(), 0);
    }
}

/// Tests in many orders of threads: `cargo test -p haul-core --features shuttle shuttle`.
#[cfg(test)]
#[cfg(feature = "shuttle")]
mod shuttle_tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use shuttle::thread;

    use super::*;

    #[test]
    fn shuttle_every_thread_gets_a_buffer_and_no_more_are_out_than_the_pool_has() {
        shuttle::check_random(
            || {
                let pool = BufferPool::new(0);
                let out = Arc::new(AtomicUsize::new(0));
                let threads: Vec<_> = (0..4)
                    .map(|_| {
                        let (pool, out) = (pool.clone(), out.clone());
                        thread::spawn(move || {
                            for _ in 0..2 {
                                let buffer = pool.take();
                                assert!(out.fetch_add(1, Ordering::SeqCst) < pool.count());
                                thread::yield_now();
                                out.fetch_sub(1, Ordering::SeqCst);
                                drop(buffer);
                            }
                        })
                    })
                    .collect();
                for thread in threads {
                    thread.join().unwrap();
                }
                let state = pool.lock();
                assert_eq!(state.free.len() + state.unmade, pool.count());
            },
            2000,
        );
    }
}
