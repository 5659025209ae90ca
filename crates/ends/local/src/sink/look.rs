//! Looking up entries of the destination.

use haul_core::{Entry, RelPath};
use rustix::fs::Statx;
use rustix::io::Errno;

use super::state::LocalSink;
use crate::path::at::At;
use crate::path::root::Root;
use crate::path::stat;

/// Looks up `path`. `None` if it is missing, or an ancestor is missing or no directory.
pub(super) fn look(sink: &LocalSink, path: &RelPath) -> rustix::io::Result<Option<(At, Statx)>> {
    let root = sink.root();
    match look_in(root, path) {
        Err(Errno::ACCESS) if !sink.options.dry_run && sink.tree().unlocked.unlock_ancestors(root, path) => {
            look_in(root, path)
        }
        found => found,
    }
}

/// The same below any root.
pub(super) fn look_in(root: &Root, path: &RelPath) -> rustix::io::Result<Option<(At, Statx)>> {
    match root.at(path).and_then(|at| stat::statx_without_atime(&at).map(|now| (at, now))) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// The directory behind a symbolic link in the place of a directory of the source, if such links are kept.
pub(super) fn behind_link(
    root: &Root,
    entry: &Entry,
    now: Option<&(At, Statx)>,
) -> rustix::io::Result<Option<(At, Statx)>> {
    let Some((_, now)) = now.filter(|_| entry.is_dir()) else { return Ok(None) };
    let Some(at) = root.behind(&entry.path, stat::kind(now))? else { return Ok(None) };
    let now = stat::statx_without_atime(&at)?;
    Ok(Some((at, now)))
}
