//! The queue itself: adding files, the order in which workers take them, and the threads that wait.

use haul_core::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haul_core::buffer::BUFFER_LEN;
use haul_core::{Batch, Entry, PageHashes, RelPath, Slice};

use super::compare::{LargeFileComparisons, Question};
use super::large::QueuedLargeFile;
use super::small::SmallFiles;

/// The number of small files in one batch, at most.
const BUNDLE: usize = 512;
/// The number of small files in the queue, at most.
pub(super) const MAX_SMALL: usize = 8192;
/// The weight of the small files in the queue, at most, in bytes of memory.
const MAX_WEIGHT: usize = 8 * 1024 * 1024;
/// The number of large files in the queue, at most.
const MAX_LARGE_FILES: usize = 1024;
/// The longest wait without a look at the state: a missed wake-up costs a second, not the run.
const CHECK: Duration = Duration::from_secs(1);

/// The files to send.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<DispatchState>,
    /// Wakes workers that may take work.
    work: Condvar,
    /// Wakes workers and comparers that had to wait for [`Queue::allow`].
    allowed: Condvar,
    /// Wakes threads that wait to add files.
    space: Condvar,
    /// Wakes comparers.
    questions: Condvar,
    /// A large file was added that is compared first.
    has_compared: AtomicBool,
}

/// The work that a worker takes.
pub(crate) struct Work {
    pub(crate) batch: Arc<Batch>,
    /// The pages that the destination has of it, if it is a compared slice.
    pub(crate) pages: Option<PageHashes>,
}

#[derive(Default)]
struct DispatchState {
    small: SmallFiles,
    large_files: VecDeque<QueuedLargeFile>,
    /// Large files that are compared first.
    comparing: LargeFileComparisons,
    /// Slices to send again. They come first.
    again: Vec<(Arc<Entry>, Slice)>,
    /// The last batch was a bundle: the next one is of a large file if there is one.
    was_small: bool,
    /// At the end of the run, slices of large files may be sent in parts.
    splits: bool,
    closed: bool,
    /// The number of workers that may take work.
    workers: usize,
}

impl Queue {
    /// Adds small files; waits while there are too many.
    pub(crate) fn add_small(&self, entries: Vec<Arc<Entry>>) {
        let mut state = self.state.lock();
        for entry in entries {
            while state.small_files_are_many() && !state.closed {
                self.work.notify_all();
                state = self.space.wait(state);
            }
            state.small.push(entry);
        }
        drop(state);
        self.work.notify_all();
    }

    /// Adds a large file without the slices in `have`, which the destination has; at least one other slice is left.
    /// `compare`: the sink is first asked for the page hashes of the file that it replaces.
    pub(crate) fn add_large(&self, entry: Arc<Entry>, have: Vec<Range<u32>>, compare: bool) {
        let mut state = self.state.lock();
        while state.large_files_are_many() && !state.closed {
            state = self.space.wait(state);
        }
        let large = QueuedLargeFile::new(entry, have, compare);
        if large.is_done() {
            return;
        }
        if compare {
            self.has_compared.store(true, Ordering::Relaxed);
            state.comparing.add(large);
        } else {
            state.large_files.push_back(large);
        }
        drop(state);
        if compare { self.questions.notify_all() } else { self.work.notify_all() }
    }

    /// Whether a large file was ever added that is compared first.
    pub(crate) fn has_compared(&self) -> bool {
        self.has_compared.load(Ordering::Relaxed)
    }

    /// The next question to the sink, for comparer number `comparer`; waits for one. `None` when the queue is closed.
    /// No more comparers than workers get questions.
    pub(crate) fn take_question(&self, comparer: usize) -> Option<Question> {
        let mut state = self.state.lock();
        while !state.closed {
            let is_allowed = comparer < state.workers.max(1);
            if is_allowed && let Some(question) = state.comparing.question() {
                return Some(question);
            }
            // A comparer that is not allowed waits elsewhere, so that a notification reaches one that is.
            let signal = if is_allowed { &self.questions } else { &self.allowed };
            state = signal.wait_timeout(state, CHECK).0;
        }
        None
    }

    /// Takes the sink's answer to a question.
    pub(crate) fn answer(&self, question: Question, pages: Vec<PageHashes>) {
        let mut state = self.state.lock();
        if let Some(rest) = state.comparing.answer(question, pages) {
            state.large_files.push_back(rest);
        }
        drop(state);
        self.work.notify_all();
        self.questions.notify_all();
    }

    /// Puts back a slice that is to be sent again. Never waits.
    pub(crate) fn add_again(&self, entry: Arc<Entry>, slice: Slice) {
        self.state.lock().again.push((entry, slice));
        self.work.notify_one();
    }

    /// Whether slices of a large file were not taken yet.
    pub(crate) fn has_large(&self, path: &RelPath) -> bool {
        let state = self.state.lock();
        state.large_files.iter().any(|large| large.entry.path == *path && !large.is_done())
            || state.comparing.has_file(path)
            || state.again.iter().any(|(entry, _)| entry.path == *path)
    }

    /// Drops the slices of a large file that were not taken. Returns about how many bytes they have.
    pub(crate) fn drop_large(&self, path: &RelPath) -> u64 {
        let mut state = self.state.lock();
        let all = state.large_files.iter().chain(state.comparing.large_files());
        let dropped = all.filter(|large| large.entry.path == *path).map(QueuedLargeFile::bytes_left).sum();
        state.large_files.retain(|large| large.entry.path != *path);
        state.comparing.drop_file(path);
        state.again.retain(|(entry, _)| entry.path != *path);
        drop(state);
        self.space.notify_all();
        dropped
    }

    /// Closes the queue: no thread waits any more, and no work is handed out any more.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.work.notify_all();
        self.allowed.notify_all();
        self.space.notify_all();
        self.questions.notify_all();
    }

    /// Allows slices of large files to be sent in parts, once there are no more slices than workers.
    pub(crate) fn split(&self) {
        self.state.lock().splits = true;
    }

    /// Allows this number of workers to take work.
    pub(crate) fn allow(&self, workers: usize) {
        let mut state = self.state.lock();
        if state.workers != workers {
            state.workers = workers;
            drop(state);
            self.work.notify_all();
            self.allowed.notify_all();
            self.questions.notify_all();
        }
    }

    /// Whether there is no work left.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state.lock();
        state.small.count() == 0
            && state.large_files.is_empty()
            && state.again.is_empty()
            && state.comparing.is_empty()
    }

    /// The next batch for worker number `worker`; waits for one. `None` when the queue is closed. `taken` is called
    /// with the batch before any other thread can see that the queue does not have it any more.
    pub(crate) fn take(&self, worker: usize, taken: impl FnOnce(&Batch)) -> Option<Work> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            let is_allowed = worker < state.workers.max(1);
            if is_allowed && let Some((batch, pages)) = state.next_batch() {
                taken(&batch);
                let has_space = state.has_space();
                drop(state);
                if has_space {
                    self.space.notify_all();
                }
                if pages.is_some() {
                    self.questions.notify_one();
                }
                return Some(Work { batch: Arc::new(batch), pages });
            }
            let signal = if is_allowed { &self.work } else { &self.allowed };
            state = signal.wait_timeout(state, CHECK).0;
        }
    }
}

impl DispatchState {
    fn small_files_are_many(&self) -> bool {
        self.small.count() >= MAX_SMALL || self.small.weight() >= MAX_WEIGHT
    }

    fn large_files_are_many(&self) -> bool {
        let weight: usize = self.large_files.iter().map(|large| large.entry.weight()).sum();
        self.large_files.len() + self.comparing.count() >= MAX_LARGE_FILES
            || weight + self.comparing.weight() >= MAX_WEIGHT
    }

    /// Whether to wake threads that wait to add files. Half of the limit, so that they add many files at a time.
    fn has_space(&self) -> bool {
        self.small.count() < MAX_SMALL / 2
            && self.small.weight() < MAX_WEIGHT / 2
            && self.large_files.len() + self.comparing.count() < MAX_LARGE_FILES
    }

    fn next_batch(&mut self) -> Option<(Batch, Option<PageHashes>)> {
        if let Some((entry, slice)) = self.again.pop() {
            return Some((Batch { again: true, ..one_slice(entry, slice) }, None));
        }
        let no_large_files = self.large_files.is_empty() && !self.comparing.has_ready();
        if self.small.count() > 0 && (!self.was_small || no_large_files) {
            self.was_small = true;
            return Some((self.bundle(), None));
        }
        self.was_small = false;
        if let Some((entry, index, pages)) = self.comparing.take() {
            return Some((one_slice(entry, Slice::whole(0, index)), pages));
        }
        let splits = self.splits && self.is_ending();
        let large = self.large_files.front_mut()?;
        let batch = one_slice(large.entry.clone(), large.take_one(splits));
        if large.is_done() {
            self.large_files.pop_front();
        }
        Some((batch, None))
    }

    /// Whether there are no more slices than workers.
    fn is_ending(&self) -> bool {
        let left = || self.large_files.iter().map(QueuedLargeFile::left).sum::<usize>();
        self.large_files.len() <= self.workers && left() <= self.workers && self.comparing.is_empty()
    }

    /// A bundle of small files. If few are left, the workers share them.
    fn bundle(&mut self) -> Batch {
        let fair = (self.small.count() / self.workers.max(1)).clamp(16, BUNDLE);
        let entries = self.small.take(fair, BUFFER_LEN as u64);
        let slices = (0..entries.len() as u32).map(|entry| Slice::whole(entry, 0)).collect();
        Batch { entries, slices, again: false }
    }
}

fn one_slice(entry: Arc<Entry>, slice: Slice) -> Batch {
    Batch { entries: vec![entry], slices: vec![Slice { entry: 0, ..slice }], again: false }
}
