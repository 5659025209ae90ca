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
                return Buffer::of(self, bytes);
            }
            if state.unmade > 0 {
                state.unmade -= 1;
                drop(state);
                // The system gives zeroed pages lazily: they take no memory until they are written.
                return Buffer::of(self, vec![0; BUFFER_LEN]);
            }
            state = self.0.returned.wait(state);
        }
    }

    /// The most buffers in existence.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.count
    }

    /// Whether half of the buffers are not in use.
    fn is_ample(&self) -> bool {
        let state = self.0.state.lock();
        state.free.len() + state.unmade >= self.0.count.div_ceil(2)
    }

    /// Up to `count` buffers for the caller to keep, so that half of the pool, and at least two buffers, remain. Never
    /// blocks. The buffers are new, so they take no memory until they are written.
    #[must_use]
    pub fn reserve(&self, count: usize) -> Vec<Buffer> {
        let mut state = self.0.state.lock();
        let spare = state.unmade.saturating_sub((self.0.count / 2).max(2)).min(count);
        state.unmade -= spare;
        let make = |_| Buffer::of(self, vec![0; BUFFER_LEN]);
        (0..spare).map(make).collect()
    }
}

/// Content, in memory that returns to its pool when dropped, or in a range of another buffer ([`Buffer::view`]).
#[derive(Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    /// The content is in this buffer, from this offset on, and not in `bytes`.
    view: Option<(Arc<Buffer>, usize)>,
    len: usize,
    pool: Option<BufferPool>,
}

impl Buffer {
    fn of(pool: &BufferPool, bytes: Vec<u8>) -> Self {
        Self { bytes, view: None, len: 0, pool: Some(pool.clone()) }
    }

    /// The content of `whole` from offset `start` on, `len` bytes at most, without a copy. It has no room, and is copied
    /// when it is changed.
    #[must_use]
    pub fn view(whole: &Arc<Self>, start: usize, len: usize) -> Self {
        let len = len.min(whole.len.saturating_sub(start));
        Self { bytes: Vec::new(), view: Some((Arc::clone(whole), start)), len, pool: None }
    }

    /// The content.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.view {
            None => &self.bytes[..self.len],
            Some((whole, start)) => whole.bytes().get(*start..*start + self.len).unwrap_or_default(),
        }
    }

    /// The content, mutable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.len;
        &mut self.own()[..len]
    }

    /// The free space in bytes.
    #[must_use]
    pub fn room(&self) -> usize {
        self.bytes.len().saturating_sub(self.len)
    }

    /// Extends the content by `len` bytes and returns them to be overwritten; their values are unspecified. `None` if
    /// they do not fit ([`Buffer::room`]).
    pub fn grow(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > self.room() {
            return None;
        }
        let start = self.len;
        self.len += len;
        Some(&mut self.own()[start..start + len])
    }

    /// Moves `len` bytes of the content from offset `from` to offset `to`.
    ///
    /// # Panics
    /// If a range is not within the content.
    pub fn shift(&mut self, from: usize, to: usize, len: usize) {
        if from != to {
            self.bytes_mut().copy_within(from..from + len, to);
        }
    }

    /// Takes the content of `other`, and gives its own memory for it. Each buffer still returns to its own pool. If one
    /// of them is a view, which has no memory to give, it takes a copy.
    pub fn exchange(&mut self, other: &mut Self) {
        if self.bytes.len() < BUFFER_LEN || other.bytes.len() < BUFFER_LEN {
            *self = Self { bytes: other.bytes().to_vec(), view: None, len: other.len, pool: None };
            return;
        }
        std::mem::swap(&mut self.bytes, &mut other.bytes);
        std::mem::swap(&mut self.len, &mut other.len);
    }

    /// Shortens the content to `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Whether keeping the buffer for long leaves enough of its pool to others: half of it.
    #[must_use]
    pub fn may_be_kept(&self) -> bool {
        self.pool.as_ref().is_none_or(BufferPool::is_ample)
    }

    /// Its own memory, with the content.
    fn own(&mut self) -> &mut Vec<u8> {
        if self.view.is_some() {
            self.bytes = self.bytes().to_vec();
            self.view = None;
        }
        &mut self.bytes
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
    fn a_view_shares_content_and_is_copied_when_it_changes() {
        let pool = BufferPool::new(2 * BUFFER_LEN as u64);
        let mut whole = pool.take();
        whole.grow(6).unwrap().copy_from_slice(b"abcdef");
        let whole = Arc::new(whole);
        let mut view = Buffer::view(&whole, 2, 3);
        assert_eq!((view.bytes(), view.room()), (&b"cde"[..], 0));
        assert_eq!(
            (Buffer::view(&whole, 4, 9).bytes(), Buffer::view(&whole, 9, 1).bytes()),
            (&b"ef"[..], &b""[..])
        );
        view.bytes_mut()[0] = b'x';
        assert_eq!((view.bytes(), whole.bytes()), (&b"xde"[..], &b"abcdef"[..]));
        // Packed content takes the place of the view, and the scratch keeps its memory.
        let (mut view, mut scratch) = (Buffer::view(&whole, 1, 4), pool.take());
        scratch.grow(2).unwrap().copy_from_slice(b"zz");
        view.exchange(&mut scratch);
        assert_eq!((view.bytes(), scratch.bytes(), scratch.room()), (&b"zz"[..], &b"zz"[..], BUFFER_LEN - 2));
        assert!(!scratch.may_be_kept() && view.may_be_kept());
        // A view keeps the whole buffer in use.
        let view = Buffer::view(&whole, 0, 1);
        drop((whole, scratch));
        assert_eq!(pool.0.state.lock().free.len(), 1);
        drop(view);
        assert_eq!(pool.0.state.lock().free.len(), 2);
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
