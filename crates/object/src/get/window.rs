//! Ranges of an object, fetched many at a time and handed over in order.
//!
//! Ranges lie in buffers of one pool: a range is asked for only when there is room for it behind those that have not
//! been handed over yet. When the one that is waited for takes much longer than others did, it is asked for once more,
//! on another connection; what comes first counts. That is sooner where nothing else can be asked for until it comes.

use haul_core::sync::{Condvar, Mutex, MutexGuard};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use haul_core::{Buffer, BufferPool, Error, Result, SLICE_LEN};

use crate::client::Client;
use crate::store::Object;

/// Bytes in a range. Each connection gets into its stride by itself, so many small ranges fill a long link sooner than
/// few large ones.
pub(super) const RANGE_LEN: u64 = SLICE_LEN;

/// A range is slow if it takes so many times as long as those before it did on average …
const SLOW: u32 = 3;

/// … and at least so long.
const SLOW_AT_LEAST: Duration = Duration::from_secs(1);

/// The same for one that holds up all others: there is room for nothing more until it comes.
const HOLDS_UP: u32 = 2;

/// See [`HOLDS_UP`].
const HOLDS_UP_AT_LEAST: Duration = Duration::from_millis(200);

/// How often it is looked whether one is slow.
const LOOK: Duration = Duration::from_millis(50);

/// The ranges of one object.
pub(super) struct Window<'a> {
    client: &'a Client,
    object: &'a Object,
    /// Where the first range begins.
    start: u64,
    ranges: u64,
    /// Ranges that may be fetched or wait to be handed over.
    room: u64,
    pool: BufferPool,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The next range that was not asked for yet.
    next: u64,
    /// The next range that is to be handed over.
    wanted: u64,
    arrived: HashMap<u64, Buffer>,
    /// Ranges under way: when they were asked for, and the end of all requests for them.
    under_way: HashMap<u64, (Instant, Arc<AtomicBool>)>,
    /// A range that is to be asked for once more.
    again: Option<u64>,
    /// How long a range takes on average.
    usual: Duration,
    fetched: u32,
    asked_again: u64,
    error: Option<Error>,
    ended: bool,
}

impl<'a> Window<'a> {
    /// The bytes of `object` from `start` on, with `memory` bytes for content.
    pub(super) fn new(client: &'a Client, object: &'a Object, start: u64, memory: u64) -> Self {
        let pool = BufferPool::new(memory);
        // Room is kept for the range that is held back until all is verified, and for one that is asked for once more.
        let room = pool.count().saturating_sub(2).max(1) as u64;
        let state = State {
            next: 0,
            wanted: 0,
            arrived: HashMap::new(),
            under_way: HashMap::new(),
            again: None,
            usual: Duration::ZERO,
            fetched: 0,
            asked_again: 0,
            error: None,
            ended: false,
        };
        let ranges = (object.len - start).div_ceil(RANGE_LEN);
        Self { client, object, start, ranges, room, pool, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Threads that fetch with profit: fewer than there is room for ranges, so that when the one that is waited for is
    /// slow, the others go on behind it; and one for what is asked for once more.
    pub(super) fn threads(&self) -> usize {
        let at_once = (self.room * 2).div_ceil(3);
        usize::try_from(at_once.min(self.ranges)).unwrap_or(1) + 1
    }

    /// Ranges that were asked for once more.
    pub(super) fn asked_again(&self) -> u64 {
        self.lock().asked_again
    }

    /// Fetches ranges until there are no more; for one of several threads.
    pub(super) fn fetch(&self) {
        while let Some((index, unwanted)) = self.take() {
            let begun = Instant::now();
            let fetched = self.fetch_one(index, &unwanted);
            let mut state = self.lock();
            match fetched {
                // Another request for it was faster.
                _ if unwanted.load(Ordering::Relaxed) => {}
                Ok(piece) => {
                    unwanted.store(true, Ordering::Relaxed);
                    state.fetched += 1;
                    let (known, count) = (state.usual, state.fetched.min(16));
                    state.usual = (known * (count - 1) + begun.elapsed()) / count;
                    state.under_way.remove(&index);
                    state.arrived.insert(index, piece);
                }
                Err(error) => {
                    state.error.get_or_insert(error);
                    state.ended = true;
                }
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    /// The next range in order; `None` after the last one.
    ///
    /// # Errors
    /// If one cannot be fetched.
    pub(super) fn next(&self) -> Result<Option<Buffer>> {
        let mut state = self.lock();
        loop {
            if let Some(error) = state.error.take() {
                return Err(error);
            }
            let wanted = state.wanted;
            if wanted == self.ranges || state.ended {
                return Ok(None);
            }
            if let Some(piece) = state.arrived.remove(&wanted) {
                state.wanted += 1;
                drop(state);
                self.changed.notify_all();
                return Ok(Some(piece));
            }
            let holds_up = state.next == self.ranges.min(wanted + self.room);
            let limit = if holds_up {
                (state.usual * HOLDS_UP).max(HOLDS_UP_AT_LEAST)
            } else {
                (state.usual * SLOW).max(SLOW_AT_LEAST)
            };
            let slow = state.under_way.get(&wanted).is_some_and(|(at, _)| at.elapsed() > limit);
            if slow && state.fetched > 0 && state.again.is_none() {
                state.again = Some(wanted);
                // It has that long once more before it is asked for a third time.
                if let Some((at, _)) = state.under_way.get_mut(&wanted) {
                    *at = Instant::now();
                }
                self.changed.notify_all();
            }
            let waited = self.changed.wait_timeout(state, LOOK);
            state = waited.0;
        }
    }

    /// Nothing more is wanted.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        state.arrived.clear();
        for (_, unwanted) in state.under_way.values() {
            unwanted.store(true, Ordering::Relaxed);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// A range to fetch, and its end.
    fn take(&self) -> Option<(u64, Arc<AtomicBool>)> {
        let mut state = self.lock();
        loop {
            if state.ended || state.wanted == self.ranges {
                return None;
            }
            if let Some(index) = state.again.take()
                && let Some((_, unwanted)) = state.under_way.get(&index)
            {
                let unwanted = Arc::clone(unwanted);
                state.asked_again += 1;
                return Some((index, unwanted));
            }
            if state.next < self.ranges && state.next < state.wanted + self.room {
                let index = state.next;
                let unwanted = Arc::new(AtomicBool::new(false));
                state.next += 1;
                state.under_way.insert(index, (Instant::now(), Arc::clone(&unwanted)));
                return Some((index, unwanted));
            }
            state = self.changed.wait(state);
        }
    }

    fn fetch_one(&self, index: u64, unwanted: &AtomicBool) -> Result<Buffer> {
        let Range { start, end } = self.range(index);
        let mut piece = self.pool.take();
        self.client.read(self.object, start..end, unwanted, &mut |bytes| match bytes {
            None => piece.truncate(0),
            // No more comes than was asked for.
            Some(bytes) => {
                if let Some(space) = piece.grow(bytes.len()) {
                    space.copy_from_slice(bytes);
                }
            }
        })?;
        Ok(piece)
    }

    fn range(&self, index: u64) -> Range<u64> {
        let start = self.start + index * RANGE_LEN;
        start..(start + RANGE_LEN).min(self.object.len)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}
