//! The queue between the threads that write and the one that commits.

use haul_core::sync::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_core::{Digest, Entry};

use crate::path::descriptors;
use crate::stage::large::LargeFile;
use crate::stage::staged::Staged;
use crate::ticket::Pending;
use haul_ends::thread_pool::ThreadPool;

/// How long a group is collected before it is synced.
const COLLECT: Duration = Duration::from_millis(300);
/// A group of this many bytes is synced at once.
const GROUP_BYTES: u64 = 128 * 1024 * 1024;
/// A group of this many items is synced at once.
const GROUP_ITEMS: usize = 2048;
/// The most items that wait; each small file is an open, locked file.
const MAX_WAITING: usize = 6000;
/// As many again are being committed, and each may hold its directory open: a sixth of the descriptors in all, or two
/// thirds of those beyond [`FEW_DESCRIPTORS`].
const WAITING_SHARE: usize = 24;
const FEW_DESCRIPTORS: usize = 4096;

/// A written slice or file that waits to be durable.
pub(crate) struct Item {
    pub(crate) pending: Pending,
    /// The number of bytes that were written.
    pub(crate) bytes: u64,
    pub(crate) what: Written,
}

/// A whole small file, or a slice of a large one.
pub(crate) enum Written {
    /// A staged file with all of its content and metadata.
    Small(Box<Staged>, Arc<Entry>, Digest),
    /// Some slice of a large file.
    Slice(Arc<LargeFile>),
}

/// The items that wait to be committed.
pub(crate) struct CommitQueue {
    state: Mutex<State>,
    changed: Condvar,
    /// The most items that wait.
    most: usize,
    /// Groups are collected for a while, to share a sync.
    collects: bool,
}

#[derive(Default)]
struct State {
    items: Vec<Item>,
    bytes: u64,
    /// When the oldest item came.
    since: Option<Instant>,
    /// Items that are being committed.
    busy: usize,
    /// Items that wait until the content of an interrupted run is read back.
    held: usize,
    flush: bool,
    closed: bool,
}

impl CommitQueue {
    pub(crate) fn new(collects: bool) -> Self {
        let share = descriptors::share(WAITING_SHARE).max(descriptors::beyond(FEW_DESCRIPTORS) / 6);
        let most = share.min(MAX_WAITING);
        Self { state: Mutex::default(), changed: Condvar::new(), most, collects }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Adds an item. Waits while the queue is full; meanwhile other threads of the pool take the caller's seat.
    pub(crate) fn push(&self, item: Item, threads: &ThreadPool) {
        let mut state = self.lock();
        let is_over =
            |state: &State| (state.items.len() >= self.most || state.busy >= self.most) && !state.closed;
        if is_over(&state) {
            let _lent = threads.lend();
            while is_over(&state) {
                state = self.changed.wait(state);
            }
        }
        let first = state.items.is_empty();
        state.bytes += item.bytes;
        state.since.get_or_insert_with(Instant::now);
        state.items.push(item);
        let due = first || self.is_full(&state);
        drop(state);
        if due {
            self.changed.notify_all();
        }
    }

    /// Keeps a slice until its file was read back.
    pub(crate) fn hold(&self, large: &Arc<LargeFile>, pending: Pending) {
        self.lock().held += 1;
        if let Some(pending) = large.recheck.hold(pending) {
            self.take_back(large, vec![pending]);
        }
    }

    /// Adds the slices that waited until their file was read back.
    pub(crate) fn take_back(&self, large: &Arc<LargeFile>, held: Vec<Pending>) {
        if held.is_empty() {
            return;
        }
        let mut state = self.lock();
        state.held -= held.len();
        state.since.get_or_insert_with(Instant::now);
        let item = |pending| Item { pending, bytes: 0, what: Written::Slice(Arc::clone(large)) };
        state.items.extend(held.into_iter().map(item));
        state.flush = true;
        drop(state);
        self.changed.notify_all();
    }

    /// Whether enough items wait for a group.
    fn is_full(&self, state: &State) -> bool {
        state.items.len() >= GROUP_ITEMS.min(self.most) || state.bytes >= GROUP_BYTES
    }

    /// Commits the waiting items without collecting more.
    pub(crate) fn flush(&self) {
        self.lock().flush = true;
        self.changed.notify_all();
    }

    /// Flushes, and waits until the queue is empty and all items are committed.
    pub(crate) fn drain(&self) {
        let mut state = self.lock();
        while !state.items.is_empty() || state.busy + state.held > 0 {
            // Only if that changes something: two threads that drain would wake each other over and over.
            if !state.items.is_empty() && !state.flush {
                state.flush = true;
                self.changed.notify_all();
            }
            state = self.changed.wait(state);
        }
    }

    /// Closes the queue; the committing thread ends once it is empty.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits for the next group; `None` once the queue is closed and empty.
    pub(crate) fn next_group(&self) -> Option<Vec<Item>> {
        let mut state = self.lock();
        loop {
            let Some(since) = state.since else {
                state.flush = false;
                if state.closed {
                    return None;
                }
                state = self.changed.wait(state);
                continue;
            };
            let waited = since.elapsed();
            if self.is_full(&state) || state.flush || state.closed || !self.collects || waited >= COLLECT {
                break;
            }
            state = self.changed.wait_timeout(state, COLLECT - waited).0;
        }
        let items = std::mem::take(&mut state.items);
        state.bytes = 0;
        state.since = None;
        state.busy += items.len();
        drop(state);
        self.changed.notify_all();
        Some(items)
    }

    /// So many items of a group are committed or have failed.
    pub(crate) fn settled(&self, count: usize) {
        self.lock().busy -= count;
        self.changed.notify_all();
    }
}

#[cfg(test)]
#[cfg(feature = "shuttle")]
#[path = "queue_shuttle_tests.rs"]
mod shuttle_tests;
