//! Runs a pipe from its start to the exit of both programs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};
use std::time::Duration;

use haul_core::{Error, ErrorKind, RelPath, Result, Side};

use super::listener::Listeners;
use super::parts::PipeParts;
use super::settings::{Pipe, PipeSettings, PipeStatus, Piped};

/// How often cancellation is checked.
const LOOK: Duration = Duration::from_millis(50);

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
    let parts = PipeParts::new(&pipe.source, &pipe.sink, settings, status);
    let over = AtomicBool::new(false);
    let moved = thread::scope(|scope| {
        let watching =
            haul_threads::spawn(scope, "cancel", || watch(pipe, &parts, listeners, (&over, cancel)));
        let moved = watching.and_then(|_| run(scope, pipe, &parts, settings));
        over.store(true, Ordering::Relaxed);
        moved
    });
    if moved.is_err() {
        end(pipe);
    }
    moved
}

/// Moves all parts, compares the digests and ends the program that reads.
fn run<'scope>(
    scope: &'scope Scope<'scope, '_>,
    pipe: &Pipe,
    parts: &Arc<PipeParts>,
    settings: PipeSettings,
) -> Result<Piped> {
    let mut threads = Vec::new();
    for number in 0..settings.threads {
        let own = Arc::clone(parts);
        match haul_threads::spawn(scope, "part", move || own.work()) {
            Ok(thread) => threads.push(thread),
            // The threads that could be started suffice.
            Err(_) if number > 0 => break,
            Err(error) => return Err(error),
        }
    }
    for thread in threads {
        if let Err(error) = haul_threads::join(thread) {
            parts.fail(error);
        }
    }
    let (len, found) = parts.end()?;
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
fn watch(pipe: &Pipe, parts: &PipeParts, listeners: &Listeners, (over, cancel): (&AtomicBool, &AtomicBool)) {
    while !over.load(Ordering::Relaxed) {
        if let Some(error) = listeners.failure() {
            parts.fail(error);
        }
        if cancel.load(Ordering::Relaxed) {
            let error = Error::new(ErrorKind::Cancelled, Side::Local, "pipe the stream", "interrupted");
            parts.fail(error);
        }
        if parts.has_failed() {
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
