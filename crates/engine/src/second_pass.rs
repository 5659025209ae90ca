//! The second pass of a run that deletes: it copies the entries that had to wait for a directory to be emptied.

use haul_core::event::{Action, Content, Done};
use haul_core::{Changes, Entry, Error, HardLink, RelPath};

use crate::deferred::{Deferred, WaitingEntries, list_error};
use crate::make_links::make_all_links;
use crate::offer::would_copy;
use crate::pipeline::pipeline;
use crate::prune::Pruned;
use crate::run::Run;

/// Copies the deferred entries. Their directories have been emptied, unless an entry in them was not deleted.
pub(crate) fn copy_deferred<'a>(
    pass: &dyn Fn() -> Run<'a>,
    deferred: &Deferred,
    pruned: &Pruned,
    workers: usize,
) {
    let run = &pass();
    let waiting = deferred.take();
    if waiting.paths.is_empty() {
        return;
    }
    if run.dry_run {
        return report_deferred(run, &waiting, pruned).unwrap_or_else(|e| run.abort(list_error(&e)));
    }
    let mut fed = Ok(());
    pipeline(run, workers, |found| {
        fed = waiting.send(found);
    });
    let linked = waiting.links.forwards(|some: Vec<(HardLink, Error)>| -> std::io::Result<()> {
        for (link, _) in some {
            run.links.add(&link).unwrap_or_else(|error| run.abort(error));
        }
        Ok(())
    });
    if let Err(e) = fed.and(linked) {
        run.abort(list_error(&e));
    }
    if !run.stopped() {
        make_all_links(run, workers, pass);
    }
}

/// Reports, in a dry run, the actions of a real run on the deferred entries.
fn report_deferred(run: &Run<'_>, waiting: &WaitingEntries, pruned: &Pruned) -> std::io::Result<()> {
    let dir_stays = |path: &RelPath| pruned.refused.is_some() || pruned.blocked.contains(path);
    waiting.entries.forwards(|some: Vec<(Entry, Error)>| -> std::io::Result<()> {
        for (entry, error) in some {
            if dir_stays(&entry.path) {
                run.meter.fail(&entry.path, error);
            } else {
                would_copy(run, &entry, Changes::KIND);
            }
        }
        Ok(())
    })?;
    waiting.links.forwards(|some: Vec<(HardLink, Error)>| -> std::io::Result<()> {
        for (link, error) in some {
            let path = &link.entry.path;
            if dir_stays(path) || dir_stays(&link.to) {
                run.meter.fail(path, error);
            } else {
                run.meter.totals().linked += 1;
                let content = Content::OfName(link.to.as_bytes());
                let done = Done::new(Action::Linked, Changes::KIND, &link.entry);
                run.meter.done(path, Done { content, ..done });
            }
        }
        Ok(())
    })
}
