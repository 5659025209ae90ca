//! Fetches the content of small objects together with their metadata, so that one request does the work of two.
//!
//! The scan asks for metadata before it is known whether the content will be read. Each small object that is read
//! allows two more to be prefetched: where everything is new this is soon every object, and where nothing is new, none.

use haul_core::sync::{Condvar, Mutex};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_core::Result;
use haul_object::{Client, Object};

/// Bytes of prefetched content that are held at a time.
const CAPACITY: u64 = 32 << 20;

/// Longer objects, in bytes, are not prefetched: a further request hardly matters for them.
const LONGEST: u64 = 256 << 10;

/// Prefetches that each object read allows.
const EACH: u64 = 2;

/// The most prefetches that may be allowed at a time.
const MOST: u64 = 4096;

/// If no held content is taken for so long, it is not wanted.
const IDLE_TIMEOUT: Duration = Duration::from_millis(500);

/// Allows prefetches and bounds the memory that they hold.
#[derive(Default)]
pub(super) struct Prefetch(Arc<PrefetchShared>);

#[derive(Default)]
struct PrefetchShared {
    state: Mutex<PrefetchState>,
    /// Memory was released.
    freed: Condvar,
}

#[derive(Default)]
struct PrefetchState {
    allowed: u64,
    held: u64,
    /// When content was taken last.
    taken: Option<Instant>,
}

/// Prefetched content, until it is taken. Its memory is released when it is taken or dropped.
pub(super) struct PrefetchedContent {
    held: Mutex<Option<(Vec<u8>, Reservation)>>,
    len: u64,
}

/// Reserved memory; released on drop.
struct Reservation {
    shared: Arc<PrefetchShared>,
    len: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shared.state.lock().held -= self.len;
        self.shared.freed.notify_all();
    }
}

impl Prefetch {
    /// A file of `len` bytes was read.
    pub(super) fn was_read(&self, len: u64) {
        if len <= LONGEST {
            let mut state = self.0.state.lock();
            state.allowed = (state.allowed + EACH).min(MOST);
        }
    }

    /// Asks for a listed object, together with its content where that is allowed; `None` if it is gone.
    ///
    /// # Errors
    /// The error of the request.
    pub(super) fn look(
        &self,
        client: &Client,
        listed: &Object,
    ) -> Result<Option<(Object, Option<PrefetchedContent>)>> {
        if let Some(reservation) = self.reserve(listed.len)
            && let Some((object, bytes)) = client.fetch(&listed.key, listed.len as usize)?
            && object.len == listed.len
        {
            return Ok(Some((object, Some(PrefetchedContent::new(bytes, reservation)))));
        }
        Ok(client.look(&listed.key)?.map(|object| (object, None)))
    }

    /// Reserves memory for an object that may be prefetched. Waits for memory as long as held content is being read.
    fn reserve(&self, len: u64) -> Option<Reservation> {
        if len == 0 || len > LONGEST {
            return None;
        }
        let mut state = self.0.state.lock();
        while state.allowed > 0 {
            if state.held + len <= CAPACITY {
                state.allowed -= 1;
                state.held += len;
                return Some(Reservation { shared: Arc::clone(&self.0), len });
            }
            let Some(left) = state.taken.and_then(|taken| IDLE_TIMEOUT.checked_sub(taken.elapsed())) else {
                state.allowed = 0;
                break;
            };
            state = self.0.freed.wait_timeout(state, left).0;
        }
        None
    }
}

impl PrefetchedContent {
    fn new(bytes: Vec<u8>, reservation: Reservation) -> Self {
        Self { len: reservation.len, held: Mutex::new(Some((bytes, reservation))) }
    }

    /// The content, once.
    pub(super) fn take(&self) -> Option<Vec<u8>> {
        let (bytes, reservation) = self.held.lock().take()?;
        reservation.shared.state.lock().taken = Some(Instant::now());
        Some(bytes)
    }

    /// Length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_read_allows_more_prefetches_up_to_the_capacity() {
        let prefetch = Prefetch::default();
        assert!(prefetch.reserve(1).is_none(), "nothing was read yet");
        prefetch.was_read(LONGEST + 1);
        assert!(prefetch.reserve(1).is_none(), "it says nothing of small ones");
        (0..MOST).for_each(|_| prefetch.was_read(1));
        assert!(prefetch.reserve(0).is_none() && prefetch.reserve(LONGEST + 1).is_none());
        let all: Vec<Reservation> = std::iter::from_fn(|| prefetch.reserve(LONGEST)).collect();
        assert_eq!(all.len() as u64, CAPACITY / LONGEST);
        drop(all);
        assert!(prefetch.reserve(1).is_none(), "nobody has read what was held");
        assert_eq!(prefetch.0.state.lock().held, 0, "it gave its room back all the same");
    }

    #[test]
    fn a_prefetch_waits_for_memory_while_content_is_taken() {
        let prefetch = Prefetch::default();
        (0..MOST).for_each(|_| prefetch.was_read(1));
        let hold = |reservation| PrefetchedContent::new(vec![1], reservation);
        let all: Vec<PrefetchedContent> =
            (0..CAPACITY / LONGEST).filter_map(|_| prefetch.reserve(LONGEST).map(hold)).collect();
        assert_eq!((all[0].take(), all[0].take()), (Some(vec![1]), None));
        let again = prefetch.reserve(LONGEST);
        assert!(again.is_some(), "what was taken has given its room back");
        std::thread::scope(|scope| {
            let more = scope.spawn(|| prefetch.reserve(LONGEST).is_some());
            drop(again);
            assert!(more.join().unwrap());
        });
    }
}
