//! Compares the metadata of entries whose content the caller compares ([`haul_core::Compare::Metadata`]).

use haul_core::{Answer, Changes, Entry, Result};
use rustix::fs::Statx;

use super::state::LocalSink;
use crate::path::at::At;
use crate::path::stat;

/// Compares the metadata of an entry, and whether it is a file of its own, as at the source.
pub(super) fn entry(sink: &LocalSink, entry: &Entry, at: &At, now: &Statx) -> Result<Answer> {
    let is_own = entry.is_dir() || sink.claims.take(now, &entry.path);
    answer(sink, entry, at, now, Changes::LINKS.when(!is_own))
}

/// Compares a further name of the file whose plain metadata is `target`; `None`: it is missing.
pub(super) fn link(
    sink: &LocalSink,
    entry: &Entry,
    (at, now): (&At, &Statx),
    target: Option<&Statx>,
) -> Result<Answer> {
    let is_link = target.is_none_or(|target| stat::inode(target) == stat::inode(now));
    answer(sink, entry, at, now, Changes::LINKS.when(!is_link))
}

fn answer(sink: &LocalSink, entry: &Entry, at: &At, now: &Statx, links: Changes) -> Result<Answer> {
    let metadata = sink.metadata();
    let entry = &*metadata.preserve.with_mode(entry, || stat::mode(now));
    let changes = metadata
        .kept_changes(sink.tree(), at, now, entry)
        .map_err(|errno| sink.root().error("look at", &entry.path, errno))?;
    let changes = changes | links;
    Ok(if changes.is_empty() { Answer::Same } else { Answer::Updated(changes) })
}
