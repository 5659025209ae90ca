//! Copies that the file system makes by sharing blocks.

use std::fs::File;

use haul_core::{Entry, Error, Outcome, Result};
use rustix::io::Errno;

use crate::meta::metadata::MetadataSetter;
use crate::stage::staged::Staged;
use crate::tree::local_tree::LocalTree;

/// Makes the entry's file a clone of `from`. `None` if the file system cannot: then nothing was changed.
pub(crate) fn clone_file(
    tree: &LocalTree,
    metadata: &MetadataSetter,
    entry: &Entry,
    from: &File,
    durable: bool,
) -> Result<Option<Outcome>> {
    let root = &tree.root;
    if tree.is_network_fs() && !tree.shares_device(from) {
        // Blocks are shared within one file system only, and a try costs as much as a file.
        return Ok(None);
    }
    let staged = Staged::open(tree, &entry.path)?;
    let failed = |errno| root.error("clone", &entry.path, errno);
    // A clone does not shorten a longer file.
    staged.clear().map_err(|e| Error::io(root.side(), "clone", &e).on(root.shown(&entry.path)))?;
    root.ops.one();
    match rustix::fs::ioctl_ficlone(&staged.file, from) {
        Ok(()) => {}
        Err(Errno::NOTSUP | Errno::XDEV | Errno::INVAL | Errno::NOTTY | Errno::NOSYS | Errno::PERM) => {
            staged.part.remove().map_err(failed)?;
            return Ok(None);
        }
        Err(errno) => return Err(failed(errno)),
    }
    metadata.set_written(&staged.written(), entry).map_err(failed)?;
    if durable {
        root.ops.one();
        staged.file.sync_data().map_err(|e| {
            staged.abandon();
            Error::io(root.side(), "sync", &e).on(root.shown(&entry.path))
        })?;
    }
    staged.publish(tree, &entry.path)?;
    Ok(Some(Outcome::Committed(None)))
}
