//! The queue between the threads that write and the one that commits.

use haul_core::sync::{Condvar, Mutex};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_core::{Digest, Entry};

use crate::path::descriptors;
use crate::stage::large::LargeFile;
use crate::stage::staged::Staged;
use crate::ticket::PendingSlice;
use haul_ends::thread_pool::ThreadPool;

/// How long a group is collected before it is synced.
const COLLECT: Duration = Duration::from_millis(300);
/// A group of this many bytes is synced at once.
const GROUP_BYTES: u64 = 128 * 1024 * 1024;
/// A group that takes this many places is synced at once.
const GROUP_PLACES: usize = 512;
/// The most places of items that wait; each small file is an open, locked file.
const MAX_WAITING: usize = 6000;
/// An item whose entry is longer takes several places, so that long names and attributes do not fill the memory. Bytes.
const PLACE: usize = 4096;
/// As many again are being committed, and each may hold its directory open: a sixth of the descriptors in all, or two
/// thirds of those beyond [`FEW_DESCRIPTORS`].
const WAITING_SHARE: usize = 24;
const FEW_DESCRIPTORS: usize = 4096;

/// A written slice or file that waits to be durable.
pub(crate) struct QueueItem {
    pub(crate) pending: PendingSlice,
    /// The number of bytes that were written.
    pub(crate) bytes: u64,
    pub(crate) what: WrittenItem,
}

impl QueueItem {
    /// The places that it takes in the queue.
    pub(crate) fn places(&self) -> usize {
        match &self.what {
            WrittenItem::Small(_, entry, _) => places_of(entry),
            // All slices of a file share its entry.
            WrittenItem::Slice(_) => 1,
        }
    }
}

/// The places that a small file takes in the queue.
pub(crate) fn places_of(entry: &Entry) -> usize {
    1 + entry.weight() / PLACE
}

/// A whole small file, or a slice of a large one.
pub(crate) enum WrittenItem {
    /// A staged file with all of its content and metadata.
    Small(Box<Staged>, Arc<Entry>, Digest),
    /// Some slice of a large file.
    Slice(Arc<LargeFile>),
}

/// The items that wait to be committed.
pub(crate) struct CommitQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
    /// The most places of items that wait.
    most: usize,
    /// Groups are collected for a while, to share a sync.
    collects: bool,
}

#[derive(Default)]
struct QueueState {
    items: Vec<QueueItem>,
    /// The places that they take.
    waiting: usize,
    bytes: u64,
    /// When the oldest item came.
    since: Option<Instant>,
    /// The places of the items that are being committed.
    busy: usize,
    /// Items that wait until the content of an interrupted run is read back.
    held: usize,
    flush: bool,
    /// Nothing more is taken. An item that comes later is dropped, which its writer takes as an error.
    closed: bool,
}

impl CommitQueue {
    pub(crate) fn new(collects: bool) -> Self {
        let share = descriptors::share(WAITING_SHARE).max(descriptors::beyond(FEW_DESCRIPTORS) / 6);
        let most = share.min(MAX_WAITING);
        Self { state: Mutex::default(), changed: Condvar::new(), most, collects }
    }

    /// Adds an item. Waits while the queue is full; meanwhile other threads of the pool take the caller's seat.
    pub(crate) fn push(&self, item: QueueItem, threads: &ThreadPool) {
        let mut state = self.state.lock();
        let is_over =
            |state: &QueueState| (state.waiting >= self.most || state.busy >= self.most) && !state.closed;
        if is_over(&state) {
            let _lent = threads.lend();
            while is_over(&state) {
                state = self.changed.wait(state);
            }
        }
        if state.closed {
            drop(state);
            return;
        }
        let first = state.items.is_empty();
        state.bytes += item.bytes;
        state.waiting += item.places();
        state.since.get_or_insert_with(Instant::now);
        state.items.push(item);
        let due = first || self.is_full(&state);
        drop(state);
        if due {
            self.changed.notify_all();
        }
    }

    /// Keeps a slice until its file was read back.
    pub(crate) fn hold(&self, large: &Arc<LargeFile>, pending: PendingSlice) {
        self.state.lock().held += 1;
        if let Some(pending) = large.recheck.hold(pending) {
            self.take_back(large, vec![pending]);
        }
    }

    /// Adds the slices that waited until their file was read back.
    pub(crate) fn take_back(&self, large: &Arc<LargeFile>, held: Vec<PendingSlice>) {
        if held.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        if state.closed {
            drop(state);
            return;
        }
        state.held -= held.len();
        state.waiting += held.len();
        state.since.get_or_insert_with(Instant::now);
        let item = |pending| QueueItem { pending, bytes: 0, what: WrittenItem::Slice(Arc::clone(large)) };
        state.items.extend(held.into_iter().map(item));
        state.flush = true;
        drop(state);
        self.changed.notify_all();
    }

    /// Whether enough items wait for a group.
    fn is_full(&self, state: &QueueState) -> bool {
        state.waiting >= GROUP_PLACES.min(self.most) || state.bytes >= GROUP_BYTES
    }

    /// Commits the waiting items without collecting more.
    pub(crate) fn flush(&self) {
        self.state.lock().flush = true;
        self.changed.notify_all();
    }

    /// Flushes, and waits until the queue is empty and all items are committed, or the committing thread has ended.
    pub(crate) fn drain(&self) {
        let mut state = self.state.lock();
        while !state.closed && (!state.items.is_empty() || state.busy + state.held > 0) {
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
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// The committing thread has ended. After a panic, nobody waits for it any more.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        let left = std::mem::replace(&mut *state, QueueState { closed: true, ..QueueState::default() });
        drop(state);
        drop(left);
        self.changed.notify_all();
    }

    /// Waits for the next group; `None` once the queue is closed and empty.
    pub(crate) fn next_group(&self) -> Option<Vec<QueueItem>> {
        let mut state = self.state.lock();
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
        state.busy += std::mem::take(&mut state.waiting);
        drop(state);
        self.changed.notify_all();
        Some(items)
    }

    /// Items of a group that take so many places are committed or have failed.
    pub(crate) fn settled(&self, places: usize) {
        self.state.lock().busy -= places;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::{EntryKind, RelPath};

    #[test]
    fn a_long_name_takes_the_places_of_the_memory_that_it_fills() {
        let file = |len| Entry::new(RelPath::new(&vec![b'a'; len]).unwrap(), EntryKind::File, 1);
        assert_eq!(places_of(&file(100)), 1);
        assert_eq!(places_of(&file(250)), 1);
        let deep: Vec<u8> = b"a/".repeat(250_000);
        let deep = Entry::new(RelPath::new(&deep[..deep.len() - 1]).unwrap(), EntryKind::File, 1);
        // However long the names are, waiting entries fill little more than this.
        assert!(places_of(&deep) * PLACE >= deep.weight() && places_of(&deep) > 120);
    }
}

#[cfg(test)]
#[cfg(feature = "shuttle")]
#[path = "queue_shuttle_tests.rs"]
mod shuttle_tests;
