//! Writes the slices of a stream into a sink while the stream is read: in any order, by several threads, each until it is
//! durable.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haul_core::digest::SliceHasher;
use haul_core::retry::{CONNECTION_RETRIES, LONGEST_PAUSE};
use haul_core::sync::{Condvar, Mutex};
use haul_core::{
    Batch, BatchData, Buffer, BufferPool, ChainingValue, ContentLimit, Entry, Error, ErrorKind, Extent,
    FileTree, Outcome, Result, Retries, SLICE_LEN, Side, Sink, Slice, SliceData,
};

use super::cut::StreamPart;
use super::settings::{FileTarget, PutStatus};

/// How often a sink that has all that there is for it is asked to make that durable.
const LOOK: Duration = Duration::from_millis(50);

/// A slice in a part of the stream.
pub(super) struct StreamPiece {
    pub(super) part: Arc<StreamPart>,
    /// Its offset in the part.
    pub(super) at: u64,
    pub(super) len: u64,
}

impl StreamPiece {
    /// Copies the slice into a buffer and hashes it, as slice `index` of a file of `file_len` bytes.
    ///
    /// # Errors
    /// The error of reading a part that is on disk.
    pub(super) fn load(
        &self,
        pool: &BufferPool,
        file_len: u64,
        index: u32,
    ) -> Result<(Buffer, ChainingValue)> {
        let mut buffer = pool.take();
        let len = usize::try_from(self.len).unwrap_or(usize::MAX);
        if let Some(space) = buffer.grow(len) {
            let read = self.part.payload.read_at(self.at, space);
            read.map_err(|error| Error::io(Side::Local, "read a part that was kept in a file", &error))?;
        }
        let mut hasher = SliceHasher::new(file_len, u64::from(index) * SLICE_LEN);
        hasher.update(buffer.bytes());
        Ok((buffer, hasher.finish()))
    }
}

/// One slice as a batch that has stayed in the memory of this process.
pub(super) fn batch(
    entry: &Arc<Entry>,
    index: u32,
    (extent, value): (Option<Extent>, ChainingValue),
    content: Buffer,
    again: bool,
) -> BatchData {
    let batch = Batch { entries: vec![Arc::clone(entry)], slices: vec![Slice::whole(0, index)], again };
    let slices = vec![Ok(SliceData { extents: extent.into_iter().collect(), value })];
    BatchData { batch: Arc::new(batch), slices, content, at_hand: true }
}

/// A slice to write.
struct PutSlice {
    index: u32,
    /// Kept until the slice is stored if it may have to be sent again.
    piece: Option<StreamPiece>,
    value: ChainingValue,
    /// The sink is asked whether it has the slice from an interrupted run.
    compares: bool,
    retries: Retries,
}

/// The slices of one stream on their way to a sink.
pub(super) struct PutSlices {
    sink: Arc<dyn Sink>,
    /// The entry of the stream while it grows.
    entry: Arc<Entry>,
    /// Slices that an interrupted run has left, to be compared.
    left: Vec<Range<u32>>,
    pool: BufferPool,
    limit: ContentLimit,
    /// Content is kept until it is stored: a connection may be lost.
    keeps: bool,
    /// How many slices may be on their way.
    window: usize,
    status: Arc<PutStatus>,
    has_threads: AtomicBool,
    state: Mutex<PutSlicesState>,
    changed: Condvar,
}

struct PutSlicesState {
    waiting: VecDeque<(u32, StreamPiece)>,
    again: Vec<PutSlice>,
    /// Slices that were taken and are neither stored nor failed.
    in_flight: usize,
    is_flushing: bool,
    tree: FileTree,
    error: Option<Error>,
    closed: bool,
}

impl PutSlices {
    /// For the stream `entry`, with at most `window` slices on their way.
    pub(super) fn new(
        target: &FileTarget,
        entry: Arc<Entry>,
        left: Vec<Range<u32>>,
        window: usize,
        status: &Arc<PutStatus>,
    ) -> Self {
        let state = PutSlicesState {
            waiting: VecDeque::new(),
            again: Vec::new(),
            in_flight: 0,
            is_flushing: false,
            tree: FileTree::new(entry.len),
            error: None,
            closed: false,
        };
        Self {
            sink: Arc::clone(&target.sink),
            entry,
            left,
            pool: target.pool.clone(),
            limit: target.limit.clone(),
            keeps: target.sink.streams() > 0,
            window: window.max(1),
            status: Arc::clone(status),
            has_threads: AtomicBool::new(false),
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Threads that write run until [`PutSlices::close`].
    pub(super) fn has_threads(&self) {
        self.has_threads.store(true, Ordering::Relaxed);
    }

    /// The sink has failed: later slices are dropped.
    pub(super) fn fail(&self, error: Error) {
        self.state.lock().error.get_or_insert(error);
        self.changed.notify_all();
    }

    pub(super) fn has_failed(&self) -> bool {
        self.state.lock().error.is_some()
    }

    pub(super) fn take_error(&self) -> Option<Error> {
        self.state.lock().error.take()
    }

    /// Hands over a slice; waits until a thread has taken the one before.
    pub(super) fn submit(&self, index: u32, piece: StreamPiece) {
        let is_busy = |state: &mut PutSlicesState| !state.waiting.is_empty() && state.error.is_none();
        let mut state = self.state.lock();
        if self.has_threads.load(Ordering::Relaxed) {
            state = self.changed.wait_while(state, is_busy);
        }
        if state.error.is_none() {
            state.waiting.push_back((index, piece));
        }
        drop(state);
        self.changed.notify_all();
    }

    /// No more slices follow.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Drops the slices that wait; no more follow.
    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        state.waiting.clear();
        state.closed = true;
        drop(state);
        self.changed.notify_all();
    }

    /// The proofs of the stored slices.
    pub(super) fn tree(&self) -> FileTree {
        self.state.lock().tree.clone()
    }

    /// Writes slices until all are stored or the sink has failed. Run by several threads.
    pub(super) fn work(self: &Arc<Self>) {
        while let Some(job) = self.take() {
            self.write(job);
        }
    }

    fn take(&self) -> Option<PutSlice> {
        let mut state = self.state.lock();
        loop {
            if state.error.is_some() {
                state.waiting.clear();
                state.in_flight -= std::mem::take(&mut state.again).len();
                self.changed.notify_all();
            }
            if let Some(job) = state.again.pop() {
                return Some(job);
            }
            if state.in_flight < self.window
                && let Some((index, piece)) = state.waiting.pop_front()
            {
                state.in_flight += 1;
                drop(state);
                self.changed.notify_all();
                let compares = self.left.iter().any(|range| range.contains(&index));
                let (value, retries) = (ChainingValue::default(), Retries::default());
                return Some(PutSlice { index, piece: Some(piece), value, compares, retries });
            }
            let is_idle = state.in_flight == 0;
            if is_idle && (state.closed || state.error.is_some()) {
                return None;
            }
            let waits = state.in_flight >= self.window || state.closed || state.error.is_some();
            if waits && !state.is_flushing {
                state.is_flushing = true;
                drop(state);
                self.sink.flush();
                state = self.state.lock();
                state.is_flushing = false;
                if state.in_flight == 0 || state.in_flight < self.window && !state.closed {
                    continue;
                }
            }
            state = self.changed.wait_timeout(state, LOOK).0;
        }
    }

    fn write(self: &Arc<Self>, mut job: PutSlice) {
        std::thread::sleep(job.retries.pause(LONGEST_PAUSE));
        let Some(piece) = &job.piece else { return self.settle(job, Err(unsettled())) };
        let (content, value) = match piece.load(&self.pool, self.entry.len, job.index) {
            Ok(loaded) => loaded,
            Err(error) => return self.settle(job, Err(error)),
        };
        job.value = value;
        let (len, again) = (SLICE_LEN as u32, job.retries.have_begun());
        let data = if job.compares {
            let extent = Extent { start: 0, len, same: true };
            batch(&self.entry, job.index, (Some(extent), value), Buffer::default(), again)
        } else {
            if !self.keeps {
                job.piece = None;
            }
            self.limit.pass(content.bytes().len(), &|| self.has_failed());
            batch(&self.entry, job.index, (Some(Extent::data(0, len)), value), content, again)
        };
        let pending = PendingPutSlice { slices: Arc::clone(self), job: Some(job) };
        self.sink.write(data, Box::new(move |outcomes| pending.settle(outcomes)));
    }

    fn settle(&self, mut job: PutSlice, outcome: Result<Outcome>) {
        let mut state = self.state.lock();
        match outcome {
            Ok(Outcome::Stored) => {
                state.tree.set(job.index, job.value);
                let counter = if job.compares { &self.status.resumed } else { &self.status.sent };
                counter.fetch_add(SLICE_LEN, Ordering::Relaxed);
                state.in_flight -= 1;
            }
            Ok(Outcome::Committed(_)) => {
                let cause = "the destination takes the file for complete before its end was sent";
                let error = Error::new(ErrorKind::Protocol, Side::Destination, "write", cause);
                state.error.get_or_insert(error);
                state.in_flight -= 1;
            }
            Err(error) if state.error.is_none() && job.piece.is_some() && job.may_repeat(&error) => {
                state.again.push(job);
            }
            Err(error) => {
                state.error.get_or_insert(error);
                state.in_flight -= 1;
            }
        }
        drop(state);
        self.changed.notify_all();
    }
}

impl PutSlice {
    /// Whether the slice is sent again after this error.
    fn may_repeat(&mut self, error: &Error) -> bool {
        if self.compares && error.kind() == ErrorKind::Corrupt {
            self.compares = false;
            return true;
        }
        self.retries.may_repeat(error.retry(), CONNECTION_RETRIES)
    }
}

/// A job that the sink has. If the sink drops it unsettled, as by a panic, it has failed.
struct PendingPutSlice {
    slices: Arc<PutSlices>,
    job: Option<PutSlice>,
}

impl PendingPutSlice {
    fn settle(mut self, mut outcomes: Vec<Result<Outcome>>) {
        if let Some(job) = self.job.take() {
            self.slices.settle(job, outcomes.pop().unwrap_or_else(|| Err(unsettled())));
        }
    }
}

impl Drop for PendingPutSlice {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            self.slices.settle(job, Err(unsettled()));
        }
    }
}

fn unsettled() -> Error {
    Error::new(ErrorKind::Io, Side::Local, "write", "the thread that had the slice ended early")
}
