//! The standard output of a program, as a source of one stream.
//!
//! One thread reads ahead. It keeps a slice until the reader has asked for so many later ones that it must have this
//! one: after a lost connection, the reader asks for a slice again. The source holds the newest slice back until it
//! knows whether it is the last one, and the last one until the program has succeeded.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use haul_core::digest::{SliceHasher, slice_count};
use haul_core::entry::GROWING;
use haul_core::source::ScanVisit;
use haul_core::sync::{Condvar, Mutex};
use haul_core::{
    Batch, BatchData, Buffer, BufferPool, ChainingValue, Digest, Entry, Error, ErrorKind, Extent, FileTree,
    Program, RelPath, Result, SLICE_LEN, Said, ScanBatch, ScanOptions, Side, Slice, SliceData, SliceParts,
    Source, SourceCaps,
};
use haul_streams::put::Input;

use crate::command::{RunMode, command, join, listen, named};
use crate::guard::ProgramGuard;
use crate::heard::Heard;

/// How often a thread that waits looks whether the source was stopped.
const LOOK: Duration = Duration::from_millis(200);

/// The standard output of a program. Dropping it ends the program.
pub struct ProgramSource {
    shared: Arc<SharedProgramSource>,
    guard: Mutex<Option<ProgramGuard>>,
    /// It ends the program when it ends.
    reader: Mutex<Option<JoinHandle<()>>>,
}

struct SharedProgramSource {
    name: String,
    /// How many slices are kept behind the last one that was asked for.
    window: u32,
    pool: BufferPool,
    cancel: Arc<AtomicBool>,
    heard: Arc<Heard>,
    state: Mutex<ProgramSourceState>,
    changed: Condvar,
}

struct ProgramSourceState {
    /// The slices that can be read.
    kept: VecDeque<Arc<Buffer>>,
    /// The number of the first of them.
    first: u32,
    /// The last slice that was asked for, and one more.
    asked: u32,
    /// The length of the stream, once it is complete, or why there is none.
    end: Option<Result<u64>>,
    tree: FileTree,
    parts: SliceParts,
}

impl ProgramSourceState {
    /// Notes the proof of a slice or of a part. `len` is that of the stream, as far as it is known.
    fn note(&mut self, slice: Slice, len: u64, value: ChainingValue) {
        if !self.tree.has(slice.index)
            && let Some(value) = self.parts.whole(slice, len, value)
        {
            self.tree.set(slice.index, value);
        }
    }
}

impl ProgramSource {
    /// Runs a program. `cancel` ends it.
    ///
    /// # Errors
    /// That of starting it.
    pub fn run(
        program: &Program,
        how: RunMode,
        window: u32,
        pool: &BufferPool,
        cancel: Arc<AtomicBool>,
    ) -> Result<Self> {
        let (name, mut command) = (named(program), command(program));
        let heard = listen(&mut command, false)?;
        let guard = if how == RunMode::There {
            command.stdin(std::process::Stdio::null());
            let guard = ProgramGuard::start(None)?;
            join(&mut command, &guard);
            Some(guard)
        } else {
            None
        };
        let input = Input::run(command, &name, Arc::clone(&cancel))?;
        let tree = FileTree::new(GROWING);
        let (kept, parts) = (VecDeque::new(), SliceParts::default());
        let state = ProgramSourceState { kept, first: 0, asked: 0, end: None, tree, parts };
        let pool = pool.clone();
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let shared = Arc::new(SharedProgramSource { name, window, pool, cancel, heard, state, changed });
        let reading = Arc::clone(&shared);
        let reader = Builder::new().name("haul-program".to_owned()).spawn(move || reading.run(input));
        let reader = reader.map_err(|error| haul_threads::refused(&error))?;
        Ok(Self { shared, guard: Mutex::new(guard), reader: Mutex::new(Some(reader)) })
    }
}

impl ProgramSource {
    /// Waits until the program has ended.
    fn wait(&self) {
        let reader = self.reader.lock().take();
        if let Some(reader) = reader {
            // A thread that panicked has dropped the program.
            let _ = reader.join();
        }
    }
}

impl SharedProgramSource {
    fn run(&self, mut input: Input) {
        let end = self.read_all(&mut input);
        self.state.lock().end.get_or_insert(end);
        self.changed.notify_all();
    }

    /// Reads to the end of the stream; its length.
    fn read_all(&self, input: &mut Input) -> Result<u64> {
        let (mut count, mut held) = (0_u32, None::<Buffer>);
        loop {
            self.wait_for_room(count)?;
            let mut buffer = self.pool.take();
            let filled = self.fill(input, &mut buffer, &mut held)?;
            if filled > 0 {
                count = count.checked_add(1).ok_or_else(|| self.failed("it is too long"))?;
                held = Some(buffer);
            }
            if (filled as u64) < SLICE_LEN {
                break;
            }
        }
        input.finish()?;
        let last = held.unwrap_or_default();
        let len = u64::from(count.max(1) - 1) * SLICE_LEN + last.bytes().len() as u64;
        let mut state = self.state.lock();
        state.kept.push_back(Arc::new(last));
        state.tree.end_at(len);
        if slice_count(len) == 1 {
            state.tree = FileTree::new(len);
        }
        Ok(len)
    }

    /// Waits until slice `index` may be read ahead.
    fn wait_for_room(&self, index: u32) -> Result<()> {
        let is_full = |state: &mut ProgramSourceState| {
            index > self.window.max(state.asked) && !self.cancel.load(Ordering::Relaxed)
        };
        let mut state = self.state.lock();
        while is_full(&mut state) {
            state = self.changed.wait_timeout(state, LOOK).0;
        }
        if self.cancel.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Cancelled, Side::Local, "read", "interrupted").on(&self.name));
        }
        Ok(())
    }

    /// Fills a slice, shorter only at the end. With its first byte, the slice before it is not the last one.
    fn fill(&self, input: &mut Input, buffer: &mut Buffer, held: &mut Option<Buffer>) -> Result<usize> {
        let room = buffer.room();
        let mut filled = 0;
        if let Some(space) = buffer.grow(room) {
            while filled < room {
                let read = input.read(&mut space[filled..])?;
                if read == 0 {
                    break;
                }
                filled += read;
                if let Some(before) = held.take() {
                    self.state.lock().kept.push_back(Arc::new(before));
                    self.changed.notify_all();
                }
            }
        }
        buffer.truncate(filled);
        Ok(filled)
    }

    fn failed(&self, cause: &str) -> Error {
        Error::new(ErrorKind::Io, Side::Source, "read", cause).on(&self.name)
    }

    /// Waits for slice `index`: its content, if the stream is that long, and the length of the stream, if it ends there
    /// or before.
    fn slice(&self, index: u32) -> Result<(Option<Arc<Buffer>>, Option<u64>)> {
        let mut state = self.state.lock();
        state.asked = state.asked.max(index.saturating_add(1));
        while state.first.saturating_add(self.window) <= index && state.kept.pop_front().is_some() {
            state.first += 1;
        }
        self.changed.notify_all();
        loop {
            let Some(at) = index.checked_sub(state.first) else {
                return Err(self.failed("a slice was asked for that is not kept any more"));
            };
            let found = state.kept.get(at as usize).cloned();
            match &state.end {
                Some(Err(error)) => return Err(error.clone()),
                Some(Ok(len)) => return Ok((found, Some(*len).filter(|len| index + 1 >= slice_count(*len)))),
                None if found.is_some() => return Ok((found, None)),
                None => state = self.changed.wait_timeout(state, LOOK).0,
            }
        }
    }
}

impl Source for ProgramSource {
    fn caps(&self) -> SourceCaps {
        SourceCaps { growing: true, ..SourceCaps::default() }
    }

    fn root(&self) -> Result<Option<Entry>> {
        let len = match &self.shared.state.lock().end {
            Some(end) => end.clone()?,
            None => GROWING,
        };
        Ok(Some(Entry::stream(RelPath::root(), len)))
    }

    fn scan(&self, _options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
        let entries = self.root()?.into_iter().collect();
        let _: ControlFlow<()> = visit(ScanBatch { entries, ..ScanBatch::default() });
        Ok(())
    }

    fn lookup(&self, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
        Ok(paths.iter().map(|path| if path.is_root() { self.root() } else { Ok(None) }).collect())
    }

    fn read(&self, batch: &Arc<Batch>) -> Result<BatchData> {
        let shared = &*self.shared;
        let slice = match (batch.get(0), batch.slices.len()) {
            (Some((entry, slice)), 1) if entry.is_growing() => slice,
            _ => return Err(shared.failed("it is a stream, which is read slice by slice")),
        };
        let (found, ended) = shared.slice(slice.index)?;
        let batch = ended.map_or_else(|| Arc::clone(batch), |len| Arc::new(batch.ended_at(len)));
        let len = ended.unwrap_or(GROWING);
        let slice = batch.slices[0];
        let start = usize::try_from(slice.start() % SLICE_LEN).unwrap_or(usize::MAX);
        let wanted = usize::try_from(slice.len_in(len)).unwrap_or(usize::MAX);
        let content = found.as_ref().map(|kept| Buffer::view(kept, start, wanted)).unwrap_or_default();
        let bytes = content.bytes();
        if bytes.is_empty() && len != 0 || found.is_none() {
            let behind = SliceData { extents: Vec::new(), value: ChainingValue::default() };
            return Ok(BatchData { batch, slices: vec![Ok(behind)], content, at_hand: true });
        }
        let mut hasher = SliceHasher::new(len, slice.start());
        hasher.update(bytes);
        let value = hasher.finish();
        shared.state.lock().note(slice, len, value);
        let extents = (!bytes.is_empty()).then(|| Extent::data(0, bytes.len() as u32)).into_iter().collect();
        Ok(BatchData { batch, slices: vec![Ok(SliceData { extents, value })], content, at_hand: true })
    }

    fn digest(&self, paths: &[RelPath]) -> Result<Vec<Result<Digest>>> {
        let digest = self.shared.state.lock().tree.digest();
        let digest = digest.ok_or_else(|| self.shared.failed("not all of it was read"));
        Ok(paths.iter().map(|_| digest.clone()).collect())
    }

    fn stop(&self) {
        self.shared.cancel.store(true, Ordering::Relaxed);
        if let Some(guard) = &*self.guard.lock() {
            guard.kill();
        }
        let stopped = Error::new(ErrorKind::Cancelled, Side::Source, "read", "it was stopped");
        let mut state = self.shared.state.lock();
        if !matches!(state.end, Some(Err(_))) {
            state.end = Some(Err(stopped.on(&self.shared.name)));
        }
        state.kept.clear();
        drop(state);
        self.shared.changed.notify_all();
        self.wait();
    }

    fn said(&self, from: u64) -> Result<Said> {
        Ok(self.shared.heard.said(from))
    }
}

impl Drop for ProgramSource {
    fn drop(&mut self) {
        let has_ended = matches!(self.shared.state.lock().end, Some(Ok(_)));
        self.shared.heard.close();
        if !has_ended {
            self.stop();
        }
        self.wait();
        if let Some(guard) = self.guard.lock().take().filter(|_| has_ended) {
            guard.end();
        }
    }
}
