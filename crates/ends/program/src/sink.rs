//! The standard input of a program, as a sink of one stream.
//!
//! Slices and parts of slices arrive in any order; the sink writes them in the order of the stream. It answers one when
//! the program has taken it, so a caller that limits those in flight limits those that the sink holds. The program sees
//! the end of its input only when the caller has compared the digest of the whole stream and calls [`Sink::finish`].
//! In any other case the sink kills it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use haul_core::digest::slice_count;
use haul_core::entry::GROWING;
use haul_core::sync::{Condvar, Mutex};
use haul_core::{
    Answer, BatchData, Buffer, ChainingValue, Changes, Digest, Error, ErrorKind, Extent, FileTree,
    FinishReport, HardLink, Offer, Outcome, Program, RelPath, Result, Said, Side, Sink, SinkCaps, Slice,
    SliceParts, WriteDone,
};

use haul_streams::put::not_started;

use crate::command::{RunMode, command, join, listen, named};
use crate::guard::ProgramGuard;
use crate::heard::Heard;

/// How long a program that closed its input has to exit.
const GRACE: Duration = Duration::from_secs(2);

/// How long a caller waits for the exit of a program that says nothing more.
const MOMENT: Duration = Duration::from_millis(250);

/// How many parts that were taken leave their memory to others.
const SPARE: usize = 32;

/// The standard input of a program. Dropping it before [`Sink::finish`] kills the program.
pub struct ProgramSink {
    shared: Arc<SharedProgramSink>,
}

struct SharedProgramSink {
    name: String,
    heard: Arc<Heard>,
    guard: Mutex<Option<ProgramGuard>>,
    state: Mutex<ProgramSinkState>,
    changed: Condvar,
}

struct ProgramSinkState {
    /// The offset in the stream that the program gets next.
    next: u64,
    /// The slices and parts that wait for bytes before them, by their offsets.
    held: BTreeMap<u64, WaitingSlice>,
    tree: FileTree,
    /// Memory of parts that the program has taken, for the next ones.
    spare: Vec<Vec<u8>>,
    parts: SliceParts,
    /// The length, once the last slice has come.
    len: Option<u64>,
    /// The digest, once the program has taken all.
    digest: Option<Digest>,
    failure: Option<Error>,
    /// The program may see the end of its input.
    finishing: bool,
    /// This end of its input is closed.
    closed: bool,
    /// The other end of its input, to see how many bytes it has left there.
    unread: Option<File>,
    exit: Option<ExitStatus>,
    finished: bool,
}

/// A slice or a part that waits for those before it.
struct WaitingSlice {
    slice: Slice,
    content: HeldContent,
    value: ChainingValue,
    done: Vec<WriteDone>,
}

/// The content of a slice or a part that waits.
enum HeldContent {
    Whole(Buffer),
    /// A buffer has room for a whole slice, so a part is copied out of it if buffers are scarce: it may wait for long.
    Part(Vec<u8>),
}

impl HeldContent {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Whole(content) => content.bytes(),
            Self::Part(content) => content,
        }
    }
}

impl ProgramSink {
    /// Runs a program.
    ///
    /// # Errors
    /// That of starting it.
    pub fn run(program: &Program, how: RunMode) -> Result<Self> {
        let (name, mut command) = (named(program), command(program));
        let failed = |error: &io::Error| Error::io(Side::Destination, "run", error).on(&name);
        let heard = listen(&mut command, how != RunMode::Here)?;
        let (from, input) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|error| failed(&error.into()))?;
        haul_streams::widen(&input);
        let guard = ProgramGuard::start(Some(input.try_clone().map_err(|error| failed(&error))?))?;
        join(&mut command, &guard);
        command.stdin(Stdio::from(from));
        let child = command.spawn();
        let child = child.map_err(|error| not_started(&command, &name, Side::Destination, &error))?;
        // Its copies of the program's ends of the pipes.
        drop(command);
        let state = ProgramSinkState {
            next: 0,
            held: BTreeMap::new(),
            tree: FileTree::new(GROWING),
            spare: Vec::new(),
            parts: SliceParts::default(),
            len: None,
            digest: None,
            failure: None,
            finishing: false,
            closed: false,
            unread: None,
            exit: None,
            finished: false,
        };
        let guard = Mutex::new(Some(guard));
        let shared = Arc::new(SharedProgramSink {
            name,
            heard,
            guard,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        // From here on, dropping it ends the program.
        let own = Self { shared: Arc::clone(&shared) };
        let writing = Arc::clone(&shared);
        let refused = |error: io::Error| haul_threads::refused(&error);
        Builder::new().name("haul-exit".to_owned()).spawn(move || shared.wait_for(child)).map_err(refused)?;
        Builder::new()
            .name("haul-program".to_owned())
            .spawn(move || writing.write_all(input))
            .map_err(refused)?;
        Ok(own)
    }
}

impl SharedProgramSink {
    fn error(&self, kind: ErrorKind, operation: &str, cause: impl Into<String>) -> Error {
        Error::new(kind, Side::Destination, operation, cause).on(&self.name)
    }

    /// Waits for the program to exit.
    fn wait_for(&self, mut child: Child) {
        match child.wait() {
            Ok(status) => {
                self.state.lock().exit = Some(status);
                self.changed.notify_all();
                // One that succeeded may have read all that it wants: that is known when the next slice is written.
                if !status.success() {
                    self.fail(self.failed(status));
                }
            }
            Err(error) => self.fail(Error::io(Side::Destination, "wait for", &error).on(&self.name)),
        }
    }

    /// The error of a program that exited with another status than 0.
    fn failed(&self, status: ExitStatus) -> Error {
        self.error(ErrorKind::Io, "run", haul_core::program::ending(status))
    }

    /// Kills the program, and answers all slices with the first error.
    fn fail(&self, error: Error) {
        let mut state = self.state.lock();
        if state.finished {
            return;
        }
        let error = state.failure.get_or_insert(error).clone();
        if let Some(guard) = &*self.guard.lock() {
            guard.kill();
        }
        let held = std::mem::take(&mut state.held);
        drop(state);
        self.changed.notify_all();
        for done in held.into_values().flat_map(|held| held.done) {
            done(vec![Err(error.clone())]);
        }
    }

    /// Gives the program slice after slice, and at last the end of its input.
    fn write_all(&self, input: OwnedFd) {
        let mut input = File::from(input);
        loop {
            let mut state = self.state.lock();
            let held = loop {
                if state.failure.is_some() {
                    return;
                }
                if state.finishing {
                    return self.close(state, &input);
                }
                let next = state.next;
                if let Some(held) = state.held.remove(&next) {
                    break held;
                }
                state = self.changed.wait(state);
            };
            drop(state);
            if let Err(error) = input.write_all(held.content.bytes()) {
                let error = self.unwritten(&error);
                self.fail(error.clone());
                held.done.into_iter().for_each(|done| done(vec![Err(error.clone())]));
                return;
            }
            let (outcome, all) = self.taken(held);
            all.into_iter().for_each(|done| done(vec![Ok(outcome)]));
        }
    }

    /// Closes the input of the program: lets the guard close its copy; then the caller closes `input`.
    fn close(&self, mut state: haul_core::sync::MutexGuard<'_, ProgramSinkState>, input: &File) {
        // Opened to count the bytes that the program leaves unread; without /proc, nobody counts them.
        let other = format!("/proc/self/fd/{}", input.as_raw_fd());
        state.unread = OpenOptions::new().read(true).open(other).ok();
        drop(state);
        let released = self.guard.lock().as_mut().map_or(Ok(()), ProgramGuard::release);
        match released {
            Ok(()) => {
                self.state.lock().closed = true;
                self.changed.notify_all();
            }
            Err(error) => self.fail(Error::io(Side::Destination, "end the input of", &error).on(&self.name)),
        }
    }

    /// The program has taken the next slice or part. Returns who sent it, also those who sent it again meanwhile.
    fn taken(&self, held: WaitingSlice) -> (Outcome, Vec<WriteDone>) {
        let WaitingSlice { slice, content, value, mut done } = held;
        let len = content.bytes().len() as u64;
        let mut state = self.state.lock();
        let start = state.next;
        state.next += len;
        let ended = state.len.filter(|len| *len == state.next);
        if let Some(len) = ended {
            state.tree.end_at(len);
            if slice_count(len) == 1 {
                state.tree = FileTree::new(len);
            }
        }
        let len = state.len.unwrap_or(GROWING);
        if let Some(value) = state.parts.whole(slice, len, value) {
            state.tree.set(slice.index, value);
        }
        if let HeldContent::Part(memory) = content
            && state.spare.len() < SPARE
        {
            state.spare.push(memory);
        }
        state.digest = ended.and_then(|_| state.tree.digest());
        let outcome = if ended.is_some() { Outcome::Committed(state.digest) } else { Outcome::Stored };
        done.extend(state.held.remove(&start).into_iter().flat_map(|again| again.done));
        (outcome, done)
    }

    /// Why the program takes nothing more.
    fn unwritten(&self, error: &io::Error) -> Error {
        if error.kind() != io::ErrorKind::BrokenPipe {
            return Error::io(Side::Destination, "write to", error).on(&self.name);
        }
        let runs = |state: &mut ProgramSinkState| state.exit.is_none();
        let (state, _) = self.changed.wait_timeout_while(self.state.lock(), GRACE, runs);
        let cause = match state.exit {
            Some(status) if status.success() => {
                format!("it ended before it had read the whole stream ({status})")
            }
            Some(status) => return self.failed(status),
            None => "it closed its standard input before it had read the whole stream".to_owned(),
        };
        self.error(ErrorKind::Io, "run", cause)
    }

    /// Checks a slice or a part that has arrived: its number, the length of the stream if it is of the last slice, and
    /// its content.
    fn check(&self, data: &BatchData) -> Result<(Slice, Option<u64>, ChainingValue)> {
        let (Some((entry, slice)), [read]) = (data.batch.get(0), data.slices.as_slice()) else {
            return Err(self.error(ErrorKind::Protocol, "write to", "it takes one slice at a time"));
        };
        let read = read.as_ref().map_err(Error::clone)?;
        let end = (!entry.is_growing()).then_some(entry.len);
        let is_last = end.is_none_or(|len| slice.index + 1 == slice_count(len));
        if !entry.is_stream() || !is_last {
            return Err(self.error(ErrorKind::Protocol, "write to", "it takes slices of one stream"));
        }
        let len = slice.len_in(entry.len);
        let whole = (len > 0).then(|| Extent::data(0, len as u32));
        let content = data.content.bytes();
        let is_whole = read.extents.iter().eq(whole.iter()) && content.len() as u64 == len;
        if !is_whole || !data.at_hand && !read.proves(entry, slice, content) {
            let cause = format!("slice {} did not arrive as it was read", slice.index);
            return Err(self.error(ErrorKind::Corrupt, "verify", cause));
        }
        Ok((slice, end, read.value))
    }

    fn hold(&self, content: Buffer, slice: Slice) -> HeldContent {
        if slice.part.is_none() || content.may_be_kept() {
            return HeldContent::Whole(content);
        }
        let mut memory = self.state.lock().spare.pop().unwrap_or_default();
        memory.clear();
        memory.extend_from_slice(content.bytes());
        HeldContent::Part(memory)
    }

    /// Takes a slice or a part, or answers one that the program has.
    fn accept(&self, data: BatchData, done: WriteDone) {
        let checked = self.check(&data).map(|(slice, end, value)| {
            let after = slice.start() + data.content.bytes().len() as u64;
            let content = self.hold(data.content, slice);
            (after, end, WaitingSlice { slice, content, value, done: Vec::new() })
        });
        let mut state = self.state.lock();
        let answer = match (checked, &state.failure) {
            (_, Some(failure)) => Err(failure.clone()),
            (Err(error), None) => Err(error),
            (Ok((after, _, held)), None) if held.slice.start() < state.next || state.digest.is_some() => {
                Ok(if state.len == Some(after) { Outcome::Committed(state.digest) } else { Outcome::Stored })
            }
            (Ok((_, end, held)), None) => {
                state.len = end.or(state.len);
                state.held.entry(held.slice.start()).or_insert(held).done.push(done);
                drop(state);
                self.changed.notify_all();
                return;
            }
        };
        drop(state);
        done(vec![answer]);
    }

    /// Waits for the end of the program, whose input ends.
    fn finish(&self) -> Result<()> {
        let mut state = self.state.lock();
        if state.digest.is_none() && state.failure.is_none() {
            return Err(self.error(ErrorKind::Protocol, "end the input of", "it has not got all of it"));
        }
        state.finishing = true;
        self.changed.notify_all();
        // One that has exited already may have left something unread, which is known when its input is closed.
        let runs =
            |state: &mut ProgramSinkState| state.failure.is_none() && !(state.closed && state.exit.is_some());
        let mut state = self.changed.wait_while(state, runs);
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        if let Some(status) = state.exit.filter(|status| !status.success()) {
            return Err(self.failed(status));
        }
        let unread = state.unread.take().and_then(|input| rustix::io::ioctl_fionread(input).ok());
        if let Some(left) = unread.filter(|left| *left > 0) {
            let cause =
                format!("it ended with status 0 and has not read the last {left} bytes of the stream");
            return Err(state.failure.insert(self.error(ErrorKind::Io, "run", cause)).clone());
        }
        state.finished = true;
        drop(state);
        if let Some(guard) = self.guard.lock().take() {
            guard.end();
        }
        Ok(())
    }
}

impl Sink for ProgramSink {
    fn caps(&self) -> SinkCaps {
        SinkCaps { growing: true, durable: false, stages: false, ..SinkCaps::default() }
    }

    fn offer(&self, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
        let answer = |offer: &Offer| match offer.entry.is_stream() {
            true => Ok(Answer::Need { changes: Changes::NEW, have: Vec::new() }),
            false => Err(self.shared.error(ErrorKind::Unsupported, "write to", "a program takes one stream")),
        };
        Ok(offers.iter().map(answer).collect())
    }

    fn write(&self, data: BatchData, done: WriteDone) {
        self.shared.accept(data, done);
    }

    fn flush(&self) {}

    fn discard(&self, _paths: &[RelPath]) -> Result<()> {
        self.shared.fail(self.shared.error(ErrorKind::Cancelled, "run", "the stream has failed"));
        Ok(())
    }

    fn link(&self, links: &[HardLink]) -> Result<Vec<Result<Answer>>> {
        let refuse = || Err(self.shared.error(ErrorKind::Unsupported, "link", "it is a program"));
        Ok(links.iter().map(|_| refuse()).collect())
    }

    fn remove(&self, paths: &[RelPath]) -> Result<Vec<Result<()>>> {
        let refuse = || Err(self.shared.error(ErrorKind::Unsupported, "remove", "it is a program"));
        Ok(paths.iter().map(|_| refuse()).collect())
    }

    fn finish(&self) -> Result<FinishReport> {
        self.shared.finish().map(|()| FinishReport::default())
    }

    fn said(&self, from: u64) -> Result<Said> {
        let said = self.shared.heard.said(from);
        if !said.text.is_empty() {
            return Ok(Said { ended: false, ..said });
        }
        let mut state = self.shared.state.lock();
        if said.ended {
            // Its end is known in a moment, unless it has closed its standard error and runs on.
            let runs = |state: &mut ProgramSinkState| state.failure.is_none() && state.exit.is_none();
            state = self.shared.changed.wait_timeout_while(state, MOMENT, runs).0;
        }
        // A caller that writes nothing meanwhile learns of a failure here.
        match (&state.failure, state.exit) {
            (Some(failure), _) => Err(failure.clone()),
            (None, Some(status)) if !status.success() => Err(self.shared.failed(status)),
            (None, exit) => Ok(Said { ended: said.ended && exit.is_some(), ..said }),
        }
    }
}

impl Drop for ProgramSink {
    fn drop(&mut self) {
        self.shared.fail(self.shared.error(ErrorKind::Cancelled, "run", "the run has ended"));
        self.shared.heard.close();
        // It waits for the guard, which was killed with its group.
        drop(self.shared.guard.lock().take());
    }
}
