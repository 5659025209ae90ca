//! Fetches ranges of an object or a file in parallel and returns them in order.
//!
//! Ranges are in buffers of one pool: a range is requested only when there is a buffer for it besides those not yet
//! returned. When the range that is waited for takes much longer than others did, it is requested again on another
//! connection, and the first answer counts. This happens sooner if no other range can be requested meanwhile.

use haul_core::sync::{Condvar, Mutex};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use haul_core::{Buffer, ChainingValue, Error, Pace, Result, SLICE_LEN};

/// Bytes in a range. Each connection has a slow start of its own, so many small ranges fill a long link sooner than a
/// few large ones.
pub(super) const RANGE_LEN: u64 = SLICE_LEN;

/// A range is slow if it takes this many times the average …
const SLOW: u32 = 3;

/// … and at least this long.
const SLOW_AT_LEAST: Duration = Duration::from_secs(1);

/// The same for a range that blocks all others because no buffer is free.
const HOLDS_UP: u32 = 2;

/// See [`HOLDS_UP`].
const HOLDS_UP_AT_LEAST: Duration = Duration::from_millis(200);

/// How often slow ranges are looked for.
const LOOK: Duration = Duration::from_millis(50);

/// The stream whose ranges are fetched.
pub(super) trait Ranges: Sync {
    /// The length in bytes.
    fn len(&self) -> u64;

    /// The name, for messages.
    fn name(&self) -> String;

    /// The most ranges that are fetched at a time.
    fn at_once(&self) -> usize {
        usize::MAX
    }

    /// Fetches a range, unless it is `unwanted` by now. It is a slice: the first one begins at a multiple of
    /// [`SLICE_LEN`].
    ///
    /// # Errors
    /// The error of the request.
    fn fetch(&self, range: Range<u64>, unwanted: &AtomicBool) -> Result<Fetched>;
}

/// A range that was fetched. The content and its hash stay together: a range may be fetched twice, and with other
/// content.
pub(super) struct Fetched {
    pub(super) content: Buffer,
    /// The hash of the content, if it was hashed while it arrived.
    pub(super) value: Option<ChainingValue>,
}

impl Fetched {
    pub(super) fn bytes(&self) -> &[u8] {
        self.content.bytes()
    }
}

/// The ranges that are fetched.
pub(super) struct Window<'a> {
    of: &'a dyn Ranges,
    pace: &'a Pace,
    /// The offset of the first range.
    start: u64,
    ranges: u64,
    /// How many ranges may be in flight or wait to be returned.
    capacity: u64,
    state: Mutex<WindowState>,
    changed: Condvar,
}

#[derive(Default)]
struct WindowState {
    /// The next range to request.
    next: u64,
    /// The next range to return.
    wanted: u64,
    arrived: HashMap<u64, Fetched>,
    /// Ranges in flight: when they were requested, and the flag that cancels their requests.
    in_flight: HashMap<u64, (Instant, Arc<AtomicBool>)>,
    /// A slow range that is to be requested again.
    again: Option<u64>,
    /// How long a range takes on average.
    usual: Duration,
    fetched: u32,
    asked_again: u64,
    error: Option<Error>,
    ended: bool,
}

impl<'a> Window<'a> {
    /// The bytes from `start` on, with so many buffers for content.
    pub(super) fn new(of: &'a dyn Ranges, start: u64, buffers: usize, pace: &'a Pace) -> Self {
        // Two buffers are reserved: for the range that is held back until all is verified, and for a repeated request.
        let capacity = buffers.saturating_sub(2).max(1) as u64;
        let ranges = of.len().saturating_sub(start).div_ceil(RANGE_LEN);
        Self { of, pace, start, ranges, capacity, state: Mutex::default(), changed: Condvar::new() }
    }

    /// The name of the stream, for messages.
    pub(super) fn name(&self) -> String {
        self.of.name()
    }

    /// The useful number of threads: fewer than the capacity, so that the others proceed when the awaited range is
    /// slow, plus one for repeated requests.
    pub(super) fn threads(&self) -> usize {
        let at_once = (self.capacity * 2).div_ceil(3);
        usize::try_from(at_once.min(self.ranges)).unwrap_or(1).min(self.of.at_once()) + 1
    }

    /// Ranges that were requested again.
    pub(super) fn asked_again(&self) -> u64 {
        self.state.lock().asked_again
    }

    /// Fetches ranges until there are no more; run by several threads.
    pub(super) fn fetch(&self) {
        while let Some((index, unwanted)) = self.take() {
            let begun = Instant::now();
            let fetched = self.of.fetch(self.range(index), &unwanted);
            let mut state = self.state.lock();
            match fetched {
                // Another request for the same range was faster.
                _ if unwanted.load(Ordering::Relaxed) => {}
                Ok(piece) => {
                    unwanted.store(true, Ordering::Relaxed);
                    state.fetched += 1;
                    let (known, count) = (state.usual, state.fetched.min(16));
                    state.usual = (known * (count - 1) + begun.elapsed()) / count;
                    state.in_flight.remove(&index);
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
    /// The error of the failed request.
    pub(super) fn next(&self) -> Result<Option<Fetched>> {
        let mut state = self.state.lock();
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
            let holds_up = state.next == self.ranges.min(wanted + self.capacity);
            let limit = if holds_up {
                (state.usual * HOLDS_UP).max(HOLDS_UP_AT_LEAST)
            } else {
                (state.usual * SLOW).max(SLOW_AT_LEAST)
            };
            // At a limited rate a range is slow because of that, and a second request would only slow down others.
            let is_limited = self.pace.inbound.rate().is_some();
            let slow = state.in_flight.get(&wanted).is_some_and(|(at, _)| at.elapsed() > limit);
            if slow && state.fetched > 0 && state.again.is_none() && !is_limited {
                state.again = Some(wanted);
                // It gets the same time again before a third request.
                if let Some((at, _)) = state.in_flight.get_mut(&wanted) {
                    *at = Instant::now();
                }
                self.changed.notify_all();
            }
            let waited = self.changed.wait_timeout(state, LOOK);
            state = waited.0;
        }
    }

    /// Cancels all requests.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        state.arrived.clear();
        for (_, unwanted) in state.in_flight.values() {
            unwanted.store(true, Ordering::Relaxed);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// The next range to fetch, and its cancel flag.
    fn take(&self) -> Option<(u64, Arc<AtomicBool>)> {
        let mut state = self.state.lock();
        loop {
            if state.ended || state.wanted == self.ranges {
                return None;
            }
            if let Some(index) = state.again.take()
                && let Some((_, unwanted)) = state.in_flight.get(&index)
            {
                let unwanted = Arc::clone(unwanted);
                state.asked_again += 1;
                return Some((index, unwanted));
            }
            if state.next < self.ranges && state.next < state.wanted + self.capacity {
                let index = state.next;
                let unwanted = Arc::new(AtomicBool::new(false));
                state.next += 1;
                state.in_flight.insert(index, (Instant::now(), Arc::clone(&unwanted)));
                return Some((index, unwanted));
            }
            state = self.changed.wait(state);
        }
    }

    fn range(&self, index: u64) -> Range<u64> {
        let start = self.start + index * RANGE_LEN;
        start..(start + RANGE_LEN).min(self.of.len())
    }
}
