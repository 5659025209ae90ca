//! Files that another program has open: they are copied once more when all others are done, and again after a pause.

use std::thread;
use std::time::{Duration, Instant};

use haul_core::{Entry, Error};

use crate::deferred::{Deferred, WaitingEntries, list_error};
use crate::options::LockedRetries;
use crate::pipeline::{pipeline, with_progress};
use crate::run::Run;

/// How often a pause checks whether the run was stopped.
const CHECK: Duration = Duration::from_millis(100);

/// Copies the files that other programs had open in the pass `first`. `pass` creates the run of a further pass; its
/// argument is whether that pass is the last one.
pub(crate) fn copy_locked<'a>(
    first: &Run<'a>,
    retries: LockedRetries,
    workers: usize,
    pass: impl Fn(bool) -> Run<'a>,
) {
    let Some(mut waiting) = first.locked.as_ref().map(Deferred::take) else { return };
    for left in (0..retries.times).rev() {
        if waiting.paths.is_empty() {
            return;
        }
        let files =
            if waiting.paths.len() == 1 { "1 file" } else { &format!("{} files", waiting.paths.len()) };
        let seconds = retries.wait.as_secs_f64();
        first.meter.note(&format!("other programs have {files} open: trying again after {seconds} s"));
        with_progress(first, || pause(first, retries.wait));
        if first.stopped() {
            break;
        }
        let run = pass(left == 0);
        let mut fed = Ok(());
        pipeline(&run, workers, |found| fed = waiting.send(found));
        fed.unwrap_or_else(|error| run.abort(list_error(&error)));
        waiting = run.locked.as_ref().map(Deferred::take).unwrap_or_default();
    }
    give_up(first, &waiting).unwrap_or_else(|error| first.abort(list_error(&error)));
}

fn pause(run: &Run<'_>, wait: Duration) {
    let begun = Instant::now();
    while !run.stopped() && begun.elapsed() < wait {
        thread::sleep(CHECK.min(wait));
    }
}

/// Reports the files that are not tried again.
fn give_up(run: &Run<'_>, waiting: &WaitingEntries) -> std::io::Result<()> {
    waiting.entries.forwards(|some: Vec<(Entry, Error)>| -> std::io::Result<()> {
        some.into_iter().for_each(|(entry, error)| run.report_failure(&entry.path, error));
        Ok(())
    })
}
