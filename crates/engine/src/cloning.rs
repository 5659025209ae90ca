//! Clones files where the file system can share blocks, instead of sending their content.

use std::sync::atomic::{AtomicU64, Ordering};

use haul_core::event::{Action, Content, Done};
use haul_core::sink::CloneRead;
use haul_core::{Changes, Entry, ErrorKind, Outcome, Result};

use crate::confirmed::ConfirmedBy;
use crate::run::Run;

/// A file of this length or more is cloned if the file system can. Each clone is synced by itself; shorter files are synced
/// hundreds at a time.
pub(crate) const CLONED: u64 = 256 * 1024;

/// Asks the file system to clone the file. `true` if the file is done: cloned, failed or deferred.
pub(crate) fn clone_file(run: &Run<'_>, entry: &Entry, changes: Changes) -> bool {
    let counted = AtomicU64::new(0);
    let cloned = match run.source.local_file(entry) {
        None => Ok(None),
        Some(Ok(local)) => {
            run.meter.show_in_flight(Some(entry.path.clone()));
            let read = |bytes| count_read(run, &counted, bytes);
            let read: Option<&CloneRead<'_>> = if run.reads_clones { Some(&read) } else { None };
            let clone = |_: &[()]| {
                // Of an attempt that has failed.
                forget_read(run, &counted);
                Ok(vec![run.sink.clone_file(entry, &local, read)])
            };
            run.ask_sink(&[()], clone).and_then(|mut answers| answers.pop().unwrap_or(Ok(None)))
        }
        // Reading meets the same error and handles it.
        Some(Err(_)) => return false,
    };
    forget_read(run, &counted);
    let Ok(Some(outcome)) = cloned else { return is_settled(run, entry, cloned) };
    let mut totals = run.meter.totals();
    totals.copied(entry.len);
    totals.cloned_bytes = totals.cloned_bytes.saturating_add(entry.len);
    drop(totals);
    run.confirm(entry, ConfirmedBy::Sent);
    let content = match outcome {
        Outcome::Committed(Some(digest)) => Content::Digest(digest),
        Outcome::Committed(None) | Outcome::Stored => Content::Unknown,
    };
    run.meter.done(&entry.path, Done { content, ..Done::new(Action::of_copy(changes), changes, entry) });
    true
}

/// Counts bytes of a clone that were read, for the progress. Returns whether to go on.
fn count_read(run: &Run<'_>, counted: &AtomicU64, bytes: u64) -> bool {
    counted.fetch_add(bytes, Ordering::Relaxed);
    run.meter.totals().cloned_bytes += bytes;
    run.keep_rate(usize::try_from(bytes).unwrap_or(usize::MAX));
    !run.stopped()
}

/// Takes back the count of bytes that were read.
fn forget_read(run: &Run<'_>, counted: &AtomicU64) {
    let mut totals = run.meter.totals();
    totals.cloned_bytes = totals.cloned_bytes.saturating_sub(counted.swap(0, Ordering::Relaxed));
}

/// Whether a file that was not cloned is done.
fn is_settled(run: &Run<'_>, entry: &Entry, cloned: Result<Option<Outcome>>) -> bool {
    match cloned {
        Ok(_) => {
            run.try_clone.store(false, Ordering::Relaxed);
            false
        }
        // The next run clones it.
        Err(error) if error.kind() == ErrorKind::Cancelled && run.stopped() => true,
        // Sending it meets the changed file and handles it.
        Err(error) if error.kind() == ErrorKind::SourceChanged => false,
        Err(error) => {
            if !run.defer(entry, &error) {
                run.fail(&entry.path, error);
            }
            true
        }
    }
}
