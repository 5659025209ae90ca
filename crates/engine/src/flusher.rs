//! What must not hold up the ledger: questions to the ends in mid-run.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use haul_core::{Error, ErrorKind, RelPath, Result, Side};

use crate::copy::Run;
use crate::feed;

/// How often a sink with nothing more to come is told to make durable what it has.
const FLUSH: Duration = Duration::from_millis(20);

/// A file to be looked at again.
pub(crate) enum Again {
    /// It changed while it was read.
    Changed(RelPath),
    /// What the destination had of it is gone, and has to come again.
    Lost(RelPath),
    /// All of it was sent and nobody said that it is committed: the process that was told of some of its slices is
    /// gone, and may have committed it in its end.
    HungOperation(RelPath),
}

/// Looks again at files, and hurries the sink at the end.
pub(crate) fn keep(run: &Run<'_>, again: &Receiver<Again>) {
    loop {
        match again.recv_timeout(FLUSH) {
            Ok(Again::Changed(path)) => {
                let discarded = run.sink.discard(std::slice::from_ref(&path));
                look_again(run, &path, discarded);
            }
            Ok(Again::Lost(path)) => look_again(run, &path, Ok(())),
            Ok(Again::HungOperation(path)) => {
                if run.close_large(&path) {
                    look_again(run, &path, Ok(()));
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                let waiting = run.in_flight() > 0 && run.queue.is_empty();
                if waiting && (run.fed.load(Ordering::Acquire) || run.stopped()) {
                    run.source.ending();
                    run.sink.flush();
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Offers the file once more; it fails where it could not be made `ready` for that.
fn look_again(run: &Run<'_>, path: &RelPath, ready: Result<()>) {
    if let Err(error) = ready.and_then(|()| once_more(run, path)) {
        run.meter.fail(path, error);
    }
    run.open.fetch_sub(1, Ordering::AcqRel);
}

/// Offers the file as it is now.
fn once_more(run: &Run<'_>, path: &RelPath) -> Result<()> {
    let found = run.source.lookup(std::slice::from_ref(path))?.pop();
    match found {
        Some(Ok(Some(entry))) if entry.is_file() => {
            let found = run.sifted(entry).map(Arc::new);
            feed::offer(run, found.into_iter().collect())
        }
        Some(Err(error)) => Err(error),
        _ => {
            let cause = "the file went away while it was read";
            Err(Error::new(ErrorKind::SourceChanged, Side::Source, "copy", cause).on(path.as_bytes()))
        }
    }
}
