//! The second pass of a run that removes: what waited until folders in its place were empty.

use haul_core::event::Action;
use haul_core::{Entry, Error, HardLink, RelPath, ScanBatch};

use crate::aside::{Aside, Waiting, failed};
use crate::copy::{Run, pipeline};
use crate::feed;
use crate::prune::Pruned;

/// Copies what waited for folders to go. Their content has been removed, unless something in them stays.
pub(crate) fn make(run: &Run<'_>, aside: &Aside, pruned: &Pruned, workers: usize) {
    let waiting = aside.take();
    if waiting.paths.is_empty() {
        return;
    }
    if run.dry_run {
        let told = would_make_way(run, &waiting, pruned);
        return told.unwrap_or_else(|e| run.abort(failed(&e)));
    }
    let mut fed = Ok(());
    pipeline(run, workers, |found| {
        fed = waiting.entries.forwards(|some: Vec<(Entry, Error)>| -> std::io::Result<()> {
            let entries = some.into_iter().map(|(entry, _)| entry).collect();
            // Who receives is gone only if the run has ended.
            let _ended = found.send(ScanBatch { entries, ..ScanBatch::default() });
            Ok(())
        });
    });
    let linked = waiting.links.forwards(|some: Vec<(HardLink, Error)>| -> std::io::Result<()> {
        some.iter().for_each(|(link, _)| run.links.put(run, link));
        Ok(())
    });
    if let Err(e) = fed.and(linked) {
        run.abort(failed(&e));
    }
    if !run.stopped() {
        run.links.make(run);
    }
}

/// With `-n`, tells what would become of what waits.
fn would_make_way(run: &Run<'_>, waiting: &Waiting, pruned: &Pruned) -> std::io::Result<()> {
    let stays = |path: &RelPath| pruned.refused.is_some() || pruned.blocked.contains(path);
    waiting.entries.forwards(|some: Vec<(Entry, Error)>| -> std::io::Result<()> {
        for (entry, error) in some {
            if stays(&entry.path) {
                run.meter.fail(&entry.path, error);
            } else {
                feed::would_copy(run, &entry, false);
            }
        }
        Ok(())
    })?;
    waiting.links.forwards(|some: Vec<(HardLink, Error)>| -> std::io::Result<()> {
        for (link, error) in some {
            let path = &link.entry.path;
            if stays(path) || stays(&link.to) {
                run.meter.fail(path, error);
            } else {
                run.meter.totals().linked += 1;
                run.meter.entry(Action::Linked, path, link.entry.len);
            }
        }
        Ok(())
    })
}
