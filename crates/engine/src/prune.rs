//! Removing what the source does not have.

use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use haul_core::event::Action;
use haul_core::{Entry, Error, ErrorKind, RelPath, ScanBatch, ScanOptions, Side, Source};
use haul_spool::{Sorter, Spool};

use crate::copy::{Delete, Run};
use crate::weigh::runs;

/// Removals asked for at once.
const ASK: usize = 1024;
/// Bytes of the paths of folders that are asked for at once.
const ASK_BYTES: usize = 1024 * 1024;

/// What is at the destination and not at the source.
#[derive(Default)]
struct Extra {
    files: Spool<RelPath>,
    /// Folders come last, innermost first: a folder's path is the beginning of those below it.
    dirs: Sorter<Reverse<RelPath>>,
    failure: Option<Error>,
}

/// Lists the destination, asks the source about each name, and removes what it does not have. Names that the rules
/// leave out are left alone. Says why nothing was removed, if so.
pub(crate) fn prune(run: &Run<'_>, view: &dyn Source, scan: &ScanOptions, delete: Delete) -> Option<String> {
    if run.scan_failed.load(Ordering::Relaxed) && !delete.ignore_errors {
        return Some("nothing was removed, because not all of the source could be looked at".to_owned());
    }
    let extra = match find(run, view, scan) {
        Ok(extra) => extra,
        Err(error) => {
            run.abort(error);
            return Some("nothing was removed, because the destination could not be listed".to_owned());
        }
    };
    let count = extra.files.len() + extra.dirs.len();
    if delete.max.is_some_and(|max| count > max) {
        let max = delete.max.unwrap_or_default();
        return Some(format!(
            "nothing was removed: {count} entries would have to go, more than --max-delete {max}"
        ));
    }
    if let Some(why) = run.guard.refuses(run, count) {
        return Some(why);
    }
    let removed = extra.files.forwards(|paths: Vec<RelPath>| -> std::io::Result<()> {
        runs(&paths, ASK, |path| path.as_bytes().len()).for_each(|paths| remove(run, paths));
        Ok(())
    });
    if let Err(e) = removed.and_then(|()| remove_dirs(run, extra.dirs)) {
        run.abort(spool_failed(&e));
    }
    None
}

fn remove_dirs(run: &Run<'_>, dirs: Sorter<Reverse<RelPath>>) -> std::io::Result<()> {
    let (mut paths, mut bytes) = (Vec::new(), 0);
    for path in dirs.sorted()? {
        let path = path?.0;
        bytes += path.as_bytes().len();
        paths.push(path);
        if paths.len() == ASK || bytes >= ASK_BYTES {
            remove(run, &paths);
            paths.clear();
            bytes = 0;
        }
    }
    remove(run, &paths);
    Ok(())
}

fn find(run: &Run<'_>, view: &dyn Source, scan: &ScanOptions) -> haul_core::Result<Extra> {
    let extra = Mutex::new(Extra::default());
    let options = ScanOptions { min_size: None, max_size: None, starts: Vec::new(), ..scan.clone() };
    view.scan(&options, &|batch: ScanBatch| {
        run.guard.lists(&batch);
        let asked = ask(run, batch);
        let mut extra = extra.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = asked.and_then(|found| {
            for entry in found {
                let kept = if entry.is_dir() {
                    extra.dirs.push(Reverse(entry.path))
                } else {
                    extra.files.push(&entry.path)
                };
                kept.map_err(|e| spool_failed(&e))?;
            }
            Ok(())
        });
        if let Err(error) = kept {
            extra.failure.get_or_insert(error);
        }
        if extra.failure.is_some() || run.stopped() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    let mut extra = extra.into_inner().unwrap_or_else(PoisonError::into_inner);
    extra.failure.take().map_or(Ok(extra), Err)
}

/// The entries of a batch that the source does not have.
fn ask(run: &Run<'_>, batch: ScanBatch) -> haul_core::Result<Vec<Entry>> {
    if let Some(failure) = batch.errors.into_iter().next() {
        return Err(failure.error.with_side(Side::Destination));
    }
    let paths: Vec<RelPath> = batch.entries.iter().map(|entry| entry.path.clone()).collect();
    let there = run.source.holds(&paths)?;
    let mut extra = Vec::new();
    for (entry, there) in batch.entries.into_iter().zip(there) {
        // What cannot be looked at may well be there.
        if matches!(there, Ok(false)) && !entry.path.is_root() {
            extra.push(entry);
        }
    }
    Ok(extra)
}

fn remove(run: &Run<'_>, paths: &[RelPath]) {
    if run.stopped() {
        return;
    }
    let removed =
        if run.dry_run { Ok(paths.iter().map(|_| Ok(())).collect()) } else { run.sink.remove(paths) };
    match removed {
        Err(error) => run.abort(error),
        Ok(removed) => {
            for (path, removed) in paths.iter().zip(removed) {
                match removed {
                    Ok(()) => {
                        run.meter.totals().removed += 1;
                        run.meter.entry(Action::Removed, path, 0);
                    }
                    Err(error) => run.meter.fail(path, error),
                }
            }
        }
    }
}

fn spool_failed(error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, Side::Local, "keep the list of removals", error.to_string())
        .with_hint("haul keeps long lists in TMPDIR; is it full?")
}
