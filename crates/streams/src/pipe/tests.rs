use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use haul_core::digest::{PART_LEN, SliceHasher, slice_count};
use haul_core::entry::GROWING;
use haul_core::source::ScanVisit;
use haul_core::sync::Mutex;
use haul_core::{
    Answer, Batch, BatchData, BufferPool, ChainingValue, Digest, Entry, Error, ErrorKind, Extent,
    FinishReport, HardLink, Offer, Outcome, RelPath, Result, Retry, SLICE_LEN, ScanOptions, Side, Sink,
    SinkCaps, SliceData, Source, SourceCaps, WriteDone,
};

use super::{Listeners, Pipe, PipeSettings, PipeStatus, Piped, pipe};

const WINDOW: u32 = 4;

fn lost() -> Error {
    Error::new(ErrorKind::Unreachable, Side::Wire, "reach", "cut").with_retry(Retry::OtherStream)
}

/// Whether this call fails: every `each`-th does.
fn fails(calls: &AtomicU32, each: u32) -> bool {
    each > 0 && calls.fetch_add(1, Ordering::Relaxed) % each == each - 1
}

/// A stream in memory.
#[derive(Default)]
struct Memory {
    bytes: Vec<u8>,
    /// Every so many reads are lost.
    loses: u32,
    calls: AtomicU32,
    /// The slice whose read fails for good.
    breaks_at: Option<u32>,
    /// Another digest than that of the bytes.
    lies: bool,
    stopped: AtomicBool,
    /// Nothing comes until it is stopped.
    hangs: bool,
}

impl Source for Memory {
    fn caps(&self) -> SourceCaps {
        SourceCaps { growing: true, ..SourceCaps::default() }
    }

    fn root(&self) -> Result<Option<Entry>> {
        Ok(None)
    }

    fn scan(&self, _: &ScanOptions, _: ScanVisit<'_>) -> Result<()> {
        Ok(())
    }

    fn lookup(&self, _: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
        Ok(Vec::new())
    }

    fn read(&self, batch: &Arc<Batch>) -> Result<BatchData> {
        while self.hangs && !self.stopped.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let index = batch.slices[0].index;
        if fails(&self.calls, self.loses) {
            return Err(lost());
        }
        if self.breaks_at.is_some_and(|at| index >= at) || self.stopped.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Io, Side::Source, "run", "it exited with code 3"));
        }
        let len = self.bytes.len() as u64;
        let end = (index + 1 >= slice_count(len)).then_some(len);
        let batch = end.map_or_else(|| Arc::clone(batch), |len| Arc::new(batch.ended_at(len)));
        let start = batch.slices[0].start();
        let end_of_part = (start + batch.slices[0].len_in(len)).min(len);
        let part = &self.bytes[start.min(len) as usize..end_of_part as usize];
        let mut content = BufferPool::new(0).take();
        content.grow(part.len()).unwrap().copy_from_slice(part);
        let value = match start < len {
            true => hashed(part, end.unwrap_or(GROWING), start),
            false => ChainingValue::default(),
        };
        let extents = (!part.is_empty()).then(|| Extent::data(0, part.len() as u32)).into_iter().collect();
        Ok(BatchData { batch, slices: vec![Ok(SliceData { extents, value })], content, at_hand: true })
    }

    fn digest(&self, _: &[RelPath]) -> Result<Vec<Result<Digest>>> {
        Ok(vec![Ok(if self.lies { Digest([1; 32]) } else { Digest::of(&self.bytes) })])
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

fn hashed(part: &[u8], len: u64, start: u64) -> ChainingValue {
    let mut hasher = SliceHasher::new(len, start);
    hasher.update(part);
    hasher.finish()
}

/// A program that takes slices in order.
#[derive(Default)]
struct Taker {
    state: Mutex<TakenBytes>,
    loses: u32,
    damages: u32,
    calls: AtomicU32,
    finished: AtomicBool,
    discarded: AtomicBool,
    /// The most slices that waited for one before them.
    most: AtomicU64,
    fails_at_end: bool,
    /// Every so many slices hang until the end, when they come first.
    hangs: u32,
}

#[derive(Default)]
struct TakenBytes {
    bytes: Vec<u8>,
    held: BTreeMap<u64, (Vec<u8>, Option<u64>, WriteDone)>,
    /// The writes that hang on their connections.
    hanging: BTreeMap<u64, WriteDone>,
}

impl Sink for Taker {
    fn caps(&self) -> SinkCaps {
        SinkCaps { growing: true, ..SinkCaps::default() }
    }

    fn offer(&self, _: &[Offer]) -> Result<Vec<Result<Answer>>> {
        Ok(Vec::new())
    }

    fn write(&self, data: BatchData, done: WriteDone) {
        let (entry, slice) = (&data.batch.entries[0], data.batch.slices[0]);
        let (index, at) = (slice.start() / PART_LEN, slice.start());
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if self.damages > 0 && call % self.damages == self.damages - 1 {
            return done(vec![Err(Error::new(ErrorKind::Corrupt, Side::Destination, "verify", "flipped"))]);
        }
        let mut state = self.state.lock();
        let next = state.bytes.len() as u64;
        if self.hangs > 0 && index % u64::from(self.hangs) == 1 && !state.hanging.contains_key(&index) {
            state.hanging.insert(index, done);
            return;
        }
        if at < next {
            drop(state);
            return done(vec![Ok(Outcome::Stored)]);
        }
        let end = (!entry.is_growing()).then_some(entry.len);
        state.held.insert(at, (data.content.bytes().to_vec(), end, done));
        assert!(u64::from(slice.index) < next / SLICE_LEN + u64::from(WINDOW), "the window is {WINDOW}");
        self.most.fetch_max(state.held.len() as u64, Ordering::Relaxed);
        let mut dones: Vec<(WriteDone, Outcome)> = Vec::new();
        while let next = state.bytes.len() as u64
            && let Some((bytes, end, done)) = state.held.remove(&next)
        {
            state.bytes.extend(bytes);
            let is_all = end == Some(state.bytes.len() as u64);
            let outcome = match is_all {
                true => Outcome::Committed(Some(Digest::of(&state.bytes))),
                false => Outcome::Stored,
            };
            dones.push((done, outcome));
        }
        // At the end, the connections that hung are lost.
        let hung = dones.iter().any(|(_, outcome)| matches!(outcome, Outcome::Committed(_)));
        let hung = if hung { std::mem::take(&mut state.hanging) } else { BTreeMap::new() };
        drop(state);
        hung.into_values().for_each(|done| done(vec![Err(lost())]));
        for (at, (done, outcome)) in dones.into_iter().enumerate() {
            // The answer is lost, and the slice comes again.
            let is_lost = at == 0 && outcome == Outcome::Stored && fails(&self.calls, self.loses);
            done(vec![if is_lost { Err(lost()) } else { Ok(outcome) }]);
        }
    }

    fn flush(&self) {}

    fn discard(&self, _: &[RelPath]) -> Result<()> {
        self.discarded.store(true, Ordering::Relaxed);
        let held = std::mem::take(&mut self.state.lock().held);
        for (_, _, done) in held.into_values() {
            done(vec![Err(Error::new(ErrorKind::Cancelled, Side::Destination, "write", "discarded"))]);
        }
        Ok(())
    }

    fn link(&self, _: &[HardLink]) -> Result<Vec<Result<Answer>>> {
        Ok(Vec::new())
    }

    fn remove(&self, _: &[RelPath]) -> Result<Vec<Result<()>>> {
        Ok(Vec::new())
    }

    fn finish(&self) -> Result<FinishReport> {
        if self.fails_at_end {
            return Err(Error::new(ErrorKind::Io, Side::Destination, "run", "it exited with code 7"));
        }
        self.finished.store(true, Ordering::Relaxed);
        Ok(FinishReport::default())
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 4096) as u8).collect()
}

fn run(source: &Arc<Memory>, sink: &Arc<Taker>, cancel: &AtomicBool) -> Result<Piped> {
    let ends = Pipe { source: source.clone(), sink: sink.clone() };
    let settings = PipeSettings { window: WINDOW, threads: 3, waits: false, allow_empty: false };
    let show: Arc<dyn Fn(&str) + Send + Sync> = Arc::new(|_: &str| {});
    let listeners = Listeners::start(&ends, ("a", "b"), &show).unwrap();
    let piped = pipe(&ends, settings, &Arc::new(PipeStatus::default()), &listeners, cancel);
    listeners.end();
    piped
}

fn piped(source: Memory, sink: Taker) -> (Result<Piped>, Arc<Memory>, Arc<Taker>) {
    let (source, sink) = (Arc::new(source), Arc::new(sink));
    let piped = run(&source, &sink, &AtomicBool::new(false));
    assert_eq!(
        piped.is_ok(),
        sink.finished.load(Ordering::Relaxed),
        "the end of the input is that of a success"
    );
    (piped, source, sink)
}

#[test]
fn a_stream_of_any_length_passes_in_order_and_both_digests_are_compared() {
    let slice = SLICE_LEN as usize;
    let part = PART_LEN as usize;
    for len in [1, slice - 1, slice, slice + 1, slice + part, 2 * slice - 1, 2 * slice, 9 * slice + 5] {
        let all = bytes(len);
        let (piped, source, sink) =
            piped(Memory { bytes: all.clone(), ..Memory::default() }, Taker::default());
        assert_eq!(piped.unwrap(), Piped { len: len as u64, digest: Digest::of(&all) });
        assert!(sink.state.lock().bytes == all && !source.stopped.load(Ordering::Relaxed), "{len}");
    }
}

#[test]
fn lost_reads_lost_answers_and_damage_cost_retries() {
    let all = bytes(9 * SLICE_LEN as usize + 5);
    for (reads, answers, damages) in [(3, 0, 0), (0, 3, 0), (0, 0, 4), (5, 4, 7)] {
        let source = Memory { bytes: all.clone(), loses: reads, ..Memory::default() };
        let (piped, _, sink) = piped(source, Taker { loses: answers, damages, ..Taker::default() });
        assert_eq!(piped.unwrap().digest, Digest::of(&all), "{reads} {answers} {damages}");
        assert!(sink.state.lock().bytes == all);
    }
}

#[test]
fn a_part_that_hangs_is_sent_once_more_on_another_connection() {
    let all = bytes(9 * SLICE_LEN as usize + 5);
    for hangs in [33, 16] {
        let source = Memory { bytes: all.clone(), ..Memory::default() };
        let (piped, _, sink) = piped(source, Taker { hangs, ..Taker::default() });
        assert_eq!(piped.unwrap().digest, Digest::of(&all));
        assert!(sink.state.lock().bytes == all);
        assert!(sink.calls.load(Ordering::Relaxed) <= 2 * 37, "none is sent a third time");
    }
}

#[test]
fn a_failure_of_either_side_ends_both_and_the_first_one_is_told() {
    let all = bytes(9 * SLICE_LEN as usize + 5);
    let of = |source: Memory, sink: Taker, cause: &str| {
        let (piped, source, sink) = piped(source, sink);
        let error = piped.unwrap_err();
        assert!(error.to_string().contains(cause), "{error}");
        assert!(source.stopped.load(Ordering::Relaxed) && sink.discarded.load(Ordering::Relaxed), "{cause}");
        error.kind()
    };
    let memory = || Memory { bytes: all.clone(), ..Memory::default() };
    of(Memory { breaks_at: Some(5), ..memory() }, Taker::default(), "exited with code 3");
    of(memory(), Taker { fails_at_end: true, ..Taker::default() }, "exited with code 7");
    of(Memory::default(), Taker::default(), "it is empty");
    let kind = of(Memory { lies: true, ..memory() }, Taker::default(), "another stream");
    assert_eq!(kind, ErrorKind::Corrupt);
    of(memory(), Taker { damages: 1, ..Taker::default() }, "flipped");
}

#[test]
fn a_cancelled_pipe_waits_for_nobody() {
    let (source, sink) = (Arc::new(Memory { hangs: true, ..Memory::default() }), Arc::new(Taker::default()));
    let cancel = AtomicBool::new(false);
    let piped = std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&source, &sink, &cancel));
        std::thread::sleep(Duration::from_millis(50));
        cancel.store(true, Ordering::Relaxed);
        running.join().unwrap()
    });
    assert_eq!(piped.unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(sink.discarded.load(Ordering::Relaxed));
}

#[test]
fn the_window_fits_into_the_memory_of_both_ends() {
    for buffers in 2..3000 {
        for waits in [false, true] {
            let PipeSettings { window, threads, .. } = PipeSettings::within(buffers, waits, false);
            assert!(window >= 1 && (1..=32).contains(&threads));
            // Compression may take half; a source keeps one more than the window.
            assert!(buffers < 8 || window as usize + 1 < buffers / 2, "{buffers}");
        }
    }
}
