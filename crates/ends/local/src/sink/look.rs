//! Looking up entries of the destination.

use haul_core::RelPath;
use rustix::fs::Statx;
use rustix::io::Errno;

use super::state::LocalSink;
use crate::path::at::At;
use crate::path::stat;

/// Looks up `path`. `None` if it is missing, or an ancestor is missing or no directory.
pub(super) fn look(sink: &LocalSink, path: &RelPath) -> rustix::io::Result<Option<(At, Statx)>> {
    let root = sink.root();
    let find = || root.at(path).and_then(|at| stat::statx_without_atime(&at).map(|now| (at, now)));
    let found = match find() {
        Err(Errno::ACCESS) if !sink.options.dry_run && sink.tree().unlocked.unlock_ancestors(root, path) => {
            find()
        }
        found => found,
    };
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(errno),
    }
}
