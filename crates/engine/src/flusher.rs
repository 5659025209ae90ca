//! The flusher thread: requests to the ends that must not delay the ledger.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use haul_core::{Error, ErrorKind, RelPath, Result, Side};

use crate::offer::offer;
use crate::run::Run;

/// How often the sink is asked to flush when all is sent.
const FLUSH: Duration = Duration::from_millis(20);

/// A file to offer once more.
pub(crate) enum SecondOffer {
    /// It changed while it was read.
    Changed(RelPath),
    /// The destination has lost the content that it had of the file.
    Lost(RelPath),
    /// All of it was sent, and no answer says that it is committed. The remote process that knows may be gone.
    Unconfirmed(RelPath),
}

/// Offers files once more, and flushes the sink at the end of the run.
pub(crate) fn run_flusher(run: &Run<'_>, rechecks: &Receiver<SecondOffer>) {
    loop {
        match rechecks.recv_timeout(FLUSH) {
            Ok(SecondOffer::Changed(path)) => {
                let discarded = run.sink.discard(std::slice::from_ref(&path));
                recheck(run, &path, discarded);
            }
            Ok(SecondOffer::Lost(path)) => recheck(run, &path, Ok(())),
            Ok(SecondOffer::Unconfirmed(path)) => {
                if run.open.remove_large(&path) {
                    recheck(run, &path, Ok(()));
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                let is_waiting = run.in_flight.batches() > 0 && run.queue.is_empty();
                if is_waiting && (run.fed.load(Ordering::Acquire) || run.stopped()) {
                    run.source.ending();
                    run.sink.flush();
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Offers the file once more. If `ready` or the offer is an error, the file fails.
fn recheck(run: &Run<'_>, path: &RelPath, ready: Result<()>) {
    if let Err(error) = ready.and_then(|()| offer_current(run, path)) {
        run.report_failure(path, error);
    }
    run.open.remove();
}

/// Offers the file as it is now.
fn offer_current(run: &Run<'_>, path: &RelPath) -> Result<()> {
    let found = run.source.lookup(std::slice::from_ref(path))?.pop();
    match found {
        Some(Ok(Some(entry))) if entry.is_file() => {
            offer(run, run.admit(entry).map(Arc::new).into_iter().collect())
        }
        Some(Err(error)) => Err(error),
        _ => {
            let cause = "the file went away while it was read";
            Err(Error::new(ErrorKind::SourceChanged, Side::Source, "copy", cause).on(path.as_bytes()))
        }
    }
}
