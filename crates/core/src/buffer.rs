//! Memory for content, with a fixed budget: the type that holds the memory enforces it.

use crate::sync::{Condvar, Mutex};
use std::sync::Arc;

/// The capacity of a buffer in bytes; also the most content in one batch.
pub const BUFFER_LEN: usize = crate::digest::SLICE_LEN as usize;

/// A fixed number of buffers of [`BUFFER_LEN`] bytes. [`BufferPool::take`] blocks while all buffers are in use: this is
/// the back-pressure of the whole program.
///
/// ```
/// use haul_core::BufferPool;
///
/// let pool = BufferPool::new(64 << 20);
/// let mut buffer = pool.take();
/// if let Some(space) = buffer.grow(5) {
///     space.copy_from_slice(b"hello");
/// }
/// assert_eq!(buffer.bytes(), b"hello");
/// // Dropping the buffer returns it to the pool.
/// drop(buffer);
/// ```
#[derive(Clone)]
pub struct BufferPool(Arc<SharedPool>);

struct SharedPool {
    /// The most buffers in existence.
    count: usize,
    state: Mutex<PoolState>,
    returned: Condvar,
}

struct PoolState {
    free: Vec<Vec<u8>>,
    /// How many buffers may still be allocated.
    unmade: usize,
}

impl BufferPool {
    /// A pool of at most `bytes`, but of at least two buffers.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let count = usize::try_from(bytes / BUFFER_LEN as u64).unwrap_or(usize::MAX).max(2);
        Self(Arc::new(SharedPool {
            count,
            state: Mutex::new(PoolState { free: Vec::new(), unmade: count }),
            returned: Condvar::new(),
        }))
    }

    /// An empty buffer. Blocks until one is free.
    #[must_use]
    pub fn take(&self) -> Buffer {
        let mut state = self.0.state.lock();
        loop {
            if let Some(bytes) = state.free.pop() {
                return Buffer { bytes, len: 0, pool: Some(self.clone()) };
            }
            if state.unmade > 0 {
                state.unmade -= 1;
                drop(state);
                // The system gives zeroed pages lazily: they take no memory until they are written.
                return Buffer { bytes: vec![0; BUFFER_LEN], len: 0, pool: Some(self.clone()) };
            }
            state = self.0.returned.wait(state);
        }
    }

    /// The most buffers in existence.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.count
    }

    /// Up to `count` buffers for the caller to keep, so that half of the pool, and at least two buffers, remain. Never
    /// blocks. The buffers are new, so they take no memory until they are written.
    #[must_use]
    pub fn reserve(&self, count: usize) -> Vec<Buffer> {
        let mut state = self.0.state.lock();
        let spare = state.unmade.saturating_sub((self.0.count / 2).max(2)).min(count);
        state.unmade -= spare;
        let make = |_| Buffer { bytes: vec![0; BUFFER_LEN], len: 0, pool: Some(self.clone()) };
        (0..spare).map(make).collect()
    }
}

/// Memory for content that returns to its pool when dropped.
#[derive(Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    len: usize,
    pool: Option<BufferPool>,
}

impl Buffer {
    /// The content.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The content, mutable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }

    /// The free space in bytes.
    #[must_use]
    pub fn room(&self) -> usize {
        self.bytes.len() - self.len
    }

    /// Extends the content by `len` bytes and returns them to be overwritten; their values are unspecified. `None` if
    /// they do not fit ([`Buffer::room`]).
    pub fn grow(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > self.room() {
            return None;
        }
        let start = self.len;
        self.len += len;
        Some(&mut self.bytes[start..start + len])
    }

    /// Moves `len` bytes of the content from offset `from` to offset `to`.
    ///
    /// # Panics
    /// If a range is not within the content.
    pub fn shift(&mut self, from: usize, to: usize, len: usize) {
        if from != to {
            self.bytes[..self.len].copy_within(from..from + len, to);
        }
    }

    /// Exchanges the memory of two buffers. Each still returns to its own pool.
    pub fn exchange(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.bytes, &mut other.bytes);
        std::mem::swap(&mut self.len, &mut other.len);
    }

    /// Shortens the content to `len` bytes.
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
            pool.0.state.lock().free.push(std::mem::take(&mut self.bytes));
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
    fn reserving_leaves_half_of_the_pool() {
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
                let state = pool.0.state.lock();
                assert_eq!(state.free.len() + state.unmade, pool.count());
            },
            2000,
        );
    }
}
