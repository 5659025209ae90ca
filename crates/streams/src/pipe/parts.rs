//! Moves a stream from a source to a sink, in parts of slices.
//!
//! The program that reads takes them in their order, so a connection that is slow or recovers from losses would hold up
//! all others. Hence the parts: a quarter of a slice is on its way for a quarter of the time. If the stream stands still
//! all the same, the part that it waits for is sent once more, on another connection.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use haul_core::digest::{PART_LEN, PARTS};
use haul_core::entry::GROWING;
use haul_core::sync::{Condvar, Mutex};
use haul_core::{
    Batch, BatchData, Digest, Entry, Error, ErrorKind, Outcome, RelPath, Result, Retries, Retry, SLICE_LEN,
    Side, Sink, Slice, Source,
};

use super::settings::{PipeSettings, PipeStatus};

/// How often a part is sent again because its connection was lost. Fewer times than in a copy: a remote end without
/// connections ends its program soon.
const CONNECTION_RETRIES: u32 = 30;
/// The longest pause before that.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// A stream stands still if no part has been taken for so long, and for so many times the usual time of one.
const STILL: Duration = Duration::from_millis(150);
/// The same for a part that was sent before the stream stood still: probably it is on the same connection.
const STILL_AGAIN: Duration = Duration::from_millis(25);
const STILL_TIMES: u32 = 8;

/// The number of parts of a stream. A stream of one slice has no parts.
fn parts_of_stream(len: u64) -> u64 {
    if len <= SLICE_LEN { 1 } else { len.div_ceil(PART_LEN) }
}

/// The part of a slice that is part `index` of the stream; `None` if no stream is that long.
fn slice(index: u64) -> Option<Slice> {
    let part = u8::try_from(index % u64::from(PARTS)).ok()?;
    Some(Slice { part: Some(part), ..Slice::whole(0, u32::try_from(index / u64::from(PARTS)).ok()?) })
}

/// A part to move.
struct PipePart {
    index: u64,
    retries: Retries,
    /// Whether another thread or connection has it too, and this one is not needed.
    twice: bool,
}

/// The parts of one stream on their way.
pub(super) struct PipeParts {
    source: Arc<dyn Source>,
    sink: Arc<dyn Sink>,
    entry: Arc<Entry>,
    settings: PipeSettings,
    status: Arc<PipeStatus>,
    state: Mutex<PipePartsState>,
    changed: Condvar,
}

#[derive(Default)]
struct PipePartsState {
    /// The next part that nobody has begun.
    next: u64,
    again: Vec<PipePart>,
    /// All parts before this one are taken.
    taken: u64,
    /// Parts after it that are taken.
    beyond: BTreeSet<u64>,
    /// Parts after `taken` that were read.
    read: BTreeSet<u64>,
    /// When a part was last taken, the usual time between two, and the last part that was sent twice.
    advanced: Option<Instant>,
    pace: Duration,
    twice: Option<u64>,
    /// The next part when the stream last stood still.
    stood_at: u64,
    /// The length of the stream, once it is known.
    len: Option<u64>,
    digest: Option<Digest>,
    error: Option<Error>,
}

impl PipePartsState {
    fn is_done(&self) -> bool {
        self.error.is_some() || self.len.is_some_and(|len| self.taken == parts_of_stream(len))
    }

    /// Parts were taken.
    fn advance(&mut self, now: Instant) {
        let before = self.taken;
        while let next = self.taken
            && self.beyond.remove(&next)
        {
            self.read.remove(&next);
            self.taken += 1;
        }
        if self.taken > before {
            let time = self.advanced.map_or(STILL, |last| now - last)
                / u32::try_from(self.taken - before).unwrap_or(u32::MAX);
            self.pace = (self.pace * 3 + time) / 4;
            self.advanced = Some(now);
        }
    }

    /// The time until the stream counts as stalled, and the part that it waits for, if that part is on a connection.
    fn still_in(&self, now: Instant, waits: bool) -> Option<(Duration, u64)> {
        let is_sent = if waits { self.taken < self.next } else { self.read.contains(&self.taken) };
        let last = self.advanced.filter(|_| is_sent && self.twice != Some(self.taken))?;
        let still = if self.taken < self.stood_at { STILL_AGAIN } else { STILL };
        Some(((still + self.pace * STILL_TIMES).saturating_sub(now - last), self.taken))
    }
}

impl PipeParts {
    pub(super) fn new(
        source: &Arc<dyn Source>,
        sink: &Arc<dyn Sink>,
        settings: PipeSettings,
        status: &Arc<PipeStatus>,
    ) -> Arc<Self> {
        Arc::new(Self {
            source: Arc::clone(source),
            sink: Arc::clone(sink),
            entry: Arc::new(Entry::stream(RelPath::root(), GROWING)),
            settings,
            status: Arc::clone(status),
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// The stream fails, unless it has.
    pub(super) fn fail(&self, error: Error) {
        self.state.lock().error.get_or_insert(error);
        self.changed.notify_all();
    }

    pub(super) fn has_failed(&self) -> bool {
        self.state.lock().error.is_some()
    }

    /// The length of the stream and the digest at the sink, once all was moved.
    ///
    /// # Errors
    /// Why it was not.
    pub(super) fn end(&self) -> Result<(u64, Digest)> {
        let state = self.state.lock();
        if let Some(error) = &state.error {
            return Err(error.clone());
        }
        state.len.zip(state.digest).ok_or_else(|| {
            Error::new(
                ErrorKind::Protocol,
                Side::Destination,
                "verify",
                "it does not name the digest of its input",
            )
        })
    }

    /// Moves parts until all have arrived, or one cannot. Run by several threads.
    pub(super) fn work(self: &Arc<Self>) {
        while let Some(job) = self.take() {
            self.move_one(job);
        }
    }

    fn take(&self) -> Option<PipePart> {
        let mut state = self.state.lock();
        loop {
            if state.is_done() {
                return None;
            }
            if let Some(job) = state.again.pop() {
                return Some(job);
            }
            let ends = state.len.is_some_and(|len| state.next >= parts_of_stream(len));
            if !ends && state.next - state.taken < self.settings.parts() {
                let index = state.next;
                state.next += 1;
                return Some(PipePart { index, retries: Retries::default(), twice: false });
            }
            state = match state.still_in(Instant::now(), self.settings.waits) {
                None => self.changed.wait(state),
                Some((Duration::ZERO, index)) => {
                    state.twice = Some(index);
                    if index >= state.stood_at {
                        state.stood_at = state.next;
                    }
                    return Some(PipePart { index, retries: Retries::default(), twice: true });
                }
                Some((time, _)) => self.changed.wait_timeout(state, time).0,
            };
        }
    }

    fn move_one(self: &Arc<Self>, job: PipePart) {
        std::thread::sleep(job.retries.pause(LONGEST_PAUSE));
        let Some(slice) = slice(job.index) else {
            let error = Error::new(ErrorKind::Unsupported, Side::Source, "read", "it is too long");
            return self.settle(job, Err(error));
        };
        let batch = Batch {
            entries: vec![Arc::clone(&self.entry)],
            slices: vec![slice],
            again: job.twice || job.retries.have_begun(),
        };
        let data = match self.source.read(&Arc::new(batch)) {
            Ok(data) => data,
            Err(error) => return self.settle(job, Err(error)),
        };
        if self.is_behind_the_end(&data, job.index) {
            return;
        }
        {
            let mut state = self.state.lock();
            if job.index >= state.taken {
                state.read.insert(job.index);
            }
        }
        let pending = PendingPipePart { parts: Arc::downgrade(self), job: Some(job) };
        self.sink.write(data, Box::new(move |mut outcomes| pending.settle(outcomes.pop())));
    }

    /// Notes the length of the stream, if the answer has it; whether the part is behind its end.
    fn is_behind_the_end(&self, data: &BatchData, index: u64) -> bool {
        let ended = data.batch.entries.first().filter(|entry| !entry.is_growing()).map(|entry| entry.len);
        let Some(len) = ended else {
            let read = (index + 1) * PART_LEN;
            self.status.read.fetch_max(read, Ordering::Relaxed);
            return false;
        };
        if len == 0 && !self.settings.allow_empty {
            let error = Error::new(ErrorKind::Io, Side::Source, "pipe the stream", "it is empty");
            self.fail(error.with_hint("--allow-empty gives the program an empty input"));
            return true;
        }
        self.status.read.store(len, Ordering::Relaxed);
        if !self.status.ended.swap(true, Ordering::Relaxed) {
            self.source.ending();
            self.sink.flush();
        }
        let mut state = self.state.lock();
        let is_other = state.len.is_some_and(|known| known != len);
        state.len = Some(len);
        drop(state);
        self.changed.notify_all();
        if is_other {
            let cause = "its length changed after its end";
            self.fail(Error::new(ErrorKind::Protocol, Side::Source, "read", cause));
        }
        is_other || index >= parts_of_stream(len)
    }

    fn settle(&self, mut job: PipePart, outcome: Result<Outcome>) {
        let mut state = self.state.lock();
        match outcome {
            Ok(outcome) => {
                if let Outcome::Committed(digest) = outcome {
                    state.digest = digest;
                }
                if job.index >= state.taken {
                    state.beyond.insert(job.index);
                }
                state.advance(Instant::now());
                let all = state.len.unwrap_or(u64::MAX);
                let sent = (state.taken * PART_LEN).min(all);
                self.status.sent.store(sent, Ordering::Relaxed);
            }
            // It may have been taken meanwhile, and not be kept any more.
            Err(_) if job.twice => {}
            Err(error) if job.index < state.taken && error.retry() != Retry::Never => {}
            Err(error)
                if state.error.is_none() && job.retries.may_repeat(error.retry(), CONNECTION_RETRIES) =>
            {
                state.again.push(job);
            }
            Err(error) => {
                state.error.get_or_insert(error);
            }
        }
        drop(state);
        self.changed.notify_all();
    }
}

/// A part that the sink has. If the sink drops it unsettled, as by a panic, the stream has failed.
///
/// It does not keep the ends: a connection that never answers would keep itself.
struct PendingPipePart {
    parts: Weak<PipeParts>,
    job: Option<PipePart>,
}

impl PendingPipePart {
    fn settle(mut self, outcome: Option<Result<Outcome>>) {
        if let (Some(parts), Some(job), Some(outcome)) = (self.parts.upgrade(), self.job.take(), outcome) {
            parts.settle(job, outcome);
        }
    }
}

impl Drop for PendingPipePart {
    fn drop(&mut self) {
        if let (Some(parts), Some(_)) = (self.parts.upgrade(), &self.job) {
            let cause = "the thread that had a part ended early";
            parts.fail(Error::new(ErrorKind::Io, Side::Local, "write", cause));
        }
    }
}
