//! Runs a pipe from its start to the exit of both programs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Scope};
use std::time::Duration;

use haul_core::{Digest, Error, ErrorKind, RelPath, Result, Side, Sink, Source};

use super::listener::Listeners;
use super::slices::Slices;

/// How often cancellation is checked.
const LOOK: Duration = Duration::from_millis(50);

/// Both ends of a pipe.
pub struct Pipe {
    /// What the program that writes is.
    pub source: Arc<dyn Source>,
    /// What the program that reads is.
    pub sink: Arc<dyn Sink>,
}

/// How a stream is moved.
#[derive(Clone, Copy, Debug)]
pub struct PipeSettings {
    /// How many slices may be on their way, from the source to the program that reads.
    pub window: u32,
    /// How many threads move them.
    pub threads: usize,
    /// Whether an empty stream is one.
    pub allow_empty: bool,
}

impl PipeSettings {
    /// For two ends that both have `buffers` for content. A slice takes one until the other program has taken it, and
    /// another one while it is sent; what compresses may take half of all. A thread that `waits` for an answer takes
    /// none meanwhile.
    #[must_use]
    pub fn within(buffers: usize, waits: bool, allow_empty: bool) -> Self {
        let window = (buffers / 2).saturating_sub(2).clamp(1, 256);
        let threads = if waits { window.min(32) } else { (buffers / 4).clamp(1, 16) };
        Self { window: u32::try_from(window).unwrap_or(1), threads, allow_empty }
    }
}

/// Progress in bytes.
#[derive(Debug, Default)]
pub struct PipeStatus {
    /// Bytes that the first program has written, in whole slices until the end.
    pub read: AtomicU64,
    /// Bytes that the second program has taken.
    pub sent: AtomicU64,
    /// Whether the end of the stream was reached.
    pub ended: AtomicBool,
}

/// A stream that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piped {
    /// Its length in bytes.
    pub len: u64,
    /// Its digest, of both ends.
    pub digest: Digest,
}

/// Moves a stream. Returns when both programs have exited, or were killed.
///
/// # Errors
/// `Cancelled`; that a program has failed; that the stream is empty, did not verify or could not be sent.
pub fn pipe(
    pipe: &Pipe,
    settings: PipeSettings,
    status: &Arc<PipeStatus>,
    listeners: &Listeners,
    cancel: &AtomicBool,
) -> Result<Piped> {
    let slices = Slices::new(&pipe.source, &pipe.sink, settings, status);
    let over = AtomicBool::new(false);
    let moved = thread::scope(|scope| {
        let watching =
            haul_threads::spawn(scope, "cancel", || watch(pipe, &slices, listeners, (&over, cancel)));
        let moved = watching.and_then(|_| run(scope, pipe, &slices, settings));
        over.store(true, Ordering::Relaxed);
        moved
    });
    if moved.is_err() {
        end(pipe);
    }
    moved
}

/// Moves all slices, compares the digests and ends the program that reads.
fn run<'scope>(
    scope: &'scope Scope<'scope, '_>,
    pipe: &Pipe,
    slices: &Arc<Slices>,
    settings: PipeSettings,
) -> Result<Piped> {
    let mut threads = Vec::new();
    for number in 0..settings.threads {
        let own = Arc::clone(slices);
        match haul_threads::spawn(scope, "slice", move || own.work()) {
            Ok(thread) => threads.push(thread),
            // The threads that could be started suffice.
            Err(_) if number > 0 => break,
            Err(error) => return Err(error),
        }
    }
    for thread in threads {
        if let Err(error) = haul_threads::join(thread) {
            slices.fail(error);
        }
    }
    let (len, found) = slices.end()?;
    let root = [RelPath::root()];
    let lost = || Error::new(ErrorKind::Protocol, Side::Source, "hash", "it has no digest");
    let digest = pipe.source.digest(&root)?.pop().transpose()?.ok_or_else(lost)?;
    if digest != found {
        let cause = "the program that reads got another stream than the other one wrote";
        return Err(Error::new(ErrorKind::Corrupt, Side::Destination, "verify", cause));
    }
    pipe.sink.finish()?;
    Ok(Piped { len, digest })
}

/// Ends both programs as soon as the run is cancelled or the stream has failed, so that nobody waits for them.
fn watch(pipe: &Pipe, slices: &Slices, listeners: &Listeners, (over, cancel): (&AtomicBool, &AtomicBool)) {
    while !over.load(Ordering::Relaxed) {
        if let Some(error) = listeners.failure() {
            slices.fail(error);
        }
        if cancel.load(Ordering::Relaxed) {
            let error = Error::new(ErrorKind::Cancelled, Side::Local, "pipe the stream", "interrupted");
            slices.fail(error);
        }
        if slices.has_failed() {
            return end(pipe);
        }
        thread::sleep(LOOK);
    }
}

/// Ends both programs; the one that reads first, which must not see the end of the stream.
fn end(pipe: &Pipe) {
    // If it cannot be told, its session has ended, or ends with this run, and that ends it too.
    let _: Result<()> = pipe.sink.discard(&[RelPath::root()]);
    pipe.source.stop();
}
