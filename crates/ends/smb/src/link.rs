//! Hard links.

use haul_core::policy::{self, Verdict};
use haul_core::{Answer, Changes, Compare, Error, HardLink, Result, SkipReason};

use super::attrs::Attrs;
use super::meta::SmbEntry;
use super::offer::{changes, compared};
use super::remove::{clear_readonly, remove_at};
use super::state::SmbSink;
use super::step::{ChainStep, OpenedKind, SET};

/// Makes a further name of a file.
pub(super) async fn link(sink: &SmbSink, link: &HardLink) -> Result<Answer> {
    let (tree, entry, options) = (&sink.tree, &*link.entry, &sink.options);
    sink.check(entry)?;
    let path = &entry.path;
    let failed = |fault| tree.error("link", path, fault);
    let no_first_name = || Error::no_first_name(tree.side).on(tree.shown(path));
    let now = sink.directories.ask(tree, path).await.map_err(failed)?;
    if !sink.directories.take(path) {
        return Err(sink.taken(path));
    }
    let first = sink.directories.ask(tree, &link.to).await.map_err(failed)?.filter(Attrs::is_file);
    let made = changes(sink, entry, now.as_ref(), &Verdict::Differs);
    let Some(first) = first else {
        return if options.dry_run { Ok(Answer::Made(made)) } else { Err(no_first_name()) };
    };
    match now {
        Some(now) if options.compare == Compare::Metadata => {
            return Ok(compared(sink, entry, &now, Changes::NONE));
        }
        Some(now) if options.links_by_metadata() && may_be_one_file(&now, &first) => return Ok(Answer::Same),
        Some(_) if options.ignore_existing => return Ok(Answer::Left(SkipReason::Exists)),
        Some(now) if policy::is_newer(options, entry, &SmbEntry { options, attrs: &now }) => {
            return Ok(Answer::Left(SkipReason::Newer));
        }
        None if options.existing => return Ok(Answer::Left(SkipReason::Missing)),
        _ if options.dry_run => return Ok(Answer::Made(made)),
        _ => {}
    }
    sink.directories.touch(path);
    let to = tree.remote(path)?;
    if let Some(now) = now {
        sink.check_replaceable(path, &now).await.map_err(failed)?;
        if now.is_dir() {
            remove_at(tree, &to).await.map_err(failed)?;
        } else {
            clear_readonly(tree, &to).await.map_err(failed)?;
        }
    }
    let chain = [
        ChainStep::open(&tree.remote(&link.to)?, OpenedKind::File, SET),
        ChainStep::link(&to, now.is_some()),
        ChainStep::close(),
    ];
    tree.run(&chain).await?.all_ok().map_err(failed)?;
    Ok(Answer::Made(if now.is_some() { made } else { Changes::NEW }))
}

/// Whether two names may be one file: all that a listing tells is equal.
fn may_be_one_file(one: &Attrs, other: &Attrs) -> bool {
    (one.flags, one.len, one.modified, one.changed) == (other.flags, other.len, other.modified, other.changed)
}
