//! Removing what the source does not have.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use haul_core::event::Action;
use haul_core::{ErrorKind, RelPath, ScanOptions, Source};
use haul_spool::Spool;

use crate::aside::Aside;
use crate::copy::{Delete, Run};
use crate::extra::{self, spool_failed};
use crate::weigh::runs;

/// Removals asked for at once.
const ASK: usize = 1024;

/// What became of the removal.
#[derive(Default)]
pub(crate) struct Pruned {
    /// Why nothing was removed, if so.
    pub(crate) refused: Option<String>,
    /// Of the paths at which an entry waits for a folder to go, those whose folder stays.
    pub(crate) blocked: BTreeSet<RelPath>,
}

impl Pruned {
    fn refused(why: String) -> Self {
        Self { refused: Some(why), blocked: BTreeSet::new() }
    }
}

/// Lists the destination, asks the source about each name, and removes what it does not have. Names that the rules
/// leave out are left alone, as is what an option protects.
pub(crate) fn prune(run: &Run<'_>, view: &dyn Source, scan: &ScanOptions, delete: Delete) -> Pruned {
    if run.scan_failed.load(Ordering::Relaxed) && !delete.ignore_errors {
        let why = "nothing was removed, because not all of the source could be looked at";
        return Pruned::refused(why.to_owned());
    }
    let extra = match extra::find(run, view, scan) {
        Ok(extra) => extra,
        Err(error) => {
            run.abort(error);
            let why = "nothing was removed, because the destination could not be listed";
            return Pruned::refused(why.to_owned());
        }
    };
    let waiting = run.aside.as_ref().map_or(0, Aside::len) - extra.blocked.len();
    let count = extra.files.len() + extra.dirs.len() + waiting as u64;
    if delete.max.is_some_and(|max| count > max) {
        let max = delete.max.unwrap_or_default();
        return Pruned::refused(format!(
            "nothing was removed: {count} entries would have to go, more than --max-delete {max}"
        ));
    }
    if let Some(why) = run.guard.refuses(run, count) {
        return Pruned::refused(why);
    }
    let mut kept = extra.kept_dirs;
    let removed =
        remove_all(run, &extra.files, &mut kept).and_then(|()| remove_all(run, &extra.dirs, &mut kept));
    if let Err(e) = removed {
        run.abort(spool_failed(&e));
    }
    if kept > 0 {
        let folders = if kept == 1 { "1 folder" } else { &format!("{kept} folders") };
        let holds = if kept == 1 { "it holds" } else { "they hold" };
        run.meter.note(&format!("not removed: {folders}, as {holds} something that is not to be removed"));
    }
    Pruned { refused: None, blocked: extra.blocked }
}

fn remove_all(run: &Run<'_>, list: &Spool<RelPath>, kept: &mut u64) -> std::io::Result<()> {
    list.forwards(|paths: Vec<RelPath>| -> std::io::Result<()> {
        runs(&paths, ASK, |path| path.as_bytes().len()).for_each(|paths| remove(run, paths, kept));
        Ok(())
    })
}

fn remove(run: &Run<'_>, paths: &[RelPath], kept: &mut u64) {
    if run.stopped() {
        return;
    }
    match run.sink.remove(paths) {
        Err(error) => run.abort(error),
        Ok(removed) => {
            for (path, removed) in paths.iter().zip(removed) {
                match removed {
                    Ok(()) => {
                        run.meter.totals().removed += 1;
                        run.meter.entry(Action::Removed, path, 0);
                    }
                    Err(error) if error.kind() == ErrorKind::InUse => {}
                    Err(error) if error.kind() == ErrorKind::NotEmpty => *kept += 1,
                    Err(error) => run.meter.fail(path, error),
                }
            }
        }
    }
}
