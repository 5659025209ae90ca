//! Deletes the extraneous entries of the destination.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use haul_core::event::{Action, Content, Done};
use haul_core::{Changes, EntryKind, ErrorKind, RelPath, ScanOptions, Source};
use haul_spool::Spool;

use crate::chunks::chunks;
use crate::deferred::Deferred;
use crate::extra::{Extra, find, list_error};
use crate::options::Delete;
use crate::path_list::PathList;
use crate::removal_size::RemovalSize;
use crate::run::Run;

/// The result of the deletion.
#[derive(Default)]
pub(crate) struct Pruned {
    /// The reason why nothing was deleted, if so.
    pub(crate) refused: Option<String>,
    /// The paths of deferred entries whose directory could not be emptied.
    pub(crate) blocked: BTreeSet<RelPath>,
}

impl Pruned {
    fn refused(why: String) -> Self {
        Self { refused: Some(why), blocked: BTreeSet::new() }
    }
}

/// Lists the destination, or with `listed` these directories of it, and deletes the entries that the source does not
/// have. Entries that the rules exclude stay, as do those that an option protects.
pub(crate) fn prune(
    run: &Run<'_>,
    view: &dyn Source,
    scan: &ScanOptions,
    delete: Delete,
    listed: Option<PathList>,
) -> Pruned {
    if run.scan_failed.load(Ordering::Relaxed) && !delete.ignore_errors {
        let why = "nothing was removed, because not all of the source could be looked at";
        return Pruned::refused(why.to_owned());
    }
    let extra = match find(run, view, scan, listed) {
        Ok(Extra { refusal: Some(why), .. }) => return Pruned::refused(why),
        Ok(extra) => extra,
        Err(error) => {
            run.abort(error);
            let why = "nothing was removed, because the destination could not be listed";
            return Pruned::refused(why.to_owned());
        }
    };
    if let Some(why) = refuse(run, &extra, delete) {
        return Pruned::refused(why);
    }
    let count = extra.files.len() + extra.dirs.len();
    let before = run.meter.totals().removed;
    run.meter.outlook.set_removals(before..before + count, run.meter.seconds());
    let mut kept = extra.kept_dirs;
    let mut size = RemovalSize::default();
    let removed = remove_all(run, &extra.files, None, &mut size, &mut kept).and_then(|()| {
        run.meter.outlook.set_removes_directories(run.meter.seconds());
        remove_all(run, &extra.dirs, Some(&EntryKind::Dir), &mut size, &mut kept)
    });
    if let Err(e) = removed {
        run.abort(list_error(&e));
    }
    if kept > 0 {
        let directories = if kept == 1 { "1 directory" } else { &format!("{kept} directories") };
        let holds = if kept == 1 { "it holds" } else { "they hold" };
        run.meter
            .note(&format!("not removed: {directories}, as {holds} something that is not to be removed"));
    }
    Pruned { refused: None, blocked: extra.blocked }
}

/// The reason to delete nothing, if there are too many extraneous entries.
fn refuse(run: &Run<'_>, extra: &Extra, delete: Delete) -> Option<String> {
    let replaced_dirs = run.deferred.as_deref().map_or(0, Deferred::len) - extra.blocked.len();
    let count = extra.files.len() + extra.dirs.len() + replaced_dirs as u64;
    if let Some(max) = delete.max.filter(|max| count > *max) {
        return Some(format!(
            "nothing was removed: {count} entries would have to go, more than --max-delete {max}"
        ));
    }
    let totals = *run.meter.totals();
    run.guard.refuse(&totals, run.dry_run, count)
}

fn remove_all(
    run: &Run<'_>,
    list: &Spool<RelPath>,
    kind: Option<&EntryKind>,
    size: &mut RemovalSize,
    kept: &mut u64,
) -> std::io::Result<()> {
    list.forwards(|paths: Vec<RelPath>| -> std::io::Result<()> {
        let mut rest = &paths[..];
        while let Some(request) = chunks(rest, size.next(), |path| path.as_bytes().len()).next() {
            let begun = run.meter.seconds();
            remove(run, request, kind, kept);
            size.took(request.len(), run.meter.seconds() - begun);
            rest = &rest[request.len()..];
        }
        Ok(())
    })
}

/// Deletes some paths, all of one kind (`None`: no directories). Counts the directories that are not empty in `kept`.
fn remove(run: &Run<'_>, paths: &[RelPath], kind: Option<&EntryKind>, kept: &mut u64) {
    let (changes, content) = (Changes::NONE, Content::Unknown);
    let done = Done { action: Action::Removed, kind, changes, len: 0, content };
    if run.stopped() {
        return;
    }
    match run.ask_sink(paths, |paths| run.sink.remove(paths)) {
        Err(error) => run.abort(error),
        Ok(removed) => {
            for (path, removed) in paths.iter().zip(removed) {
                match removed {
                    Ok(()) => {
                        run.meter.totals().removed += 1;
                        run.meter.done(path, done);
                    }
                    Err(error) if error.kind() == ErrorKind::InUse => {}
                    Err(error) if error.kind() == ErrorKind::NotEmpty => *kept += 1,
                    Err(error) => run.meter.fail(path, error),
                }
            }
        }
    }
}
