//! Copies that the file system makes by sharing blocks.

use std::fs::File;

use haul_core::{Entry, Error, Outcome, Result};
use rustix::io::Errno;

use super::meta::{Metadata, On};
use super::root::Root;
use super::stage;

/// Makes the entry's file a clone of `from`. `None` where the file system cannot: then nothing was changed.
pub(super) fn clone_file(
    root: &Root,
    metadata: &Metadata,
    entry: &Entry,
    from: &File,
    durable: bool,
) -> Result<Option<Outcome>> {
    if root.is_network_fs() && !root.shares_device(from) {
        // It could not, and to try costs as much as a file.
        return Ok(None);
    }
    let staged = stage::Staged::open(root, &entry.path)?;
    let failed = |errno| root.error("clone", &entry.path, errno);
    // A clone does not shorten what is longer.
    staged.clear().map_err(|e| Error::io(root.side(), "clone", &e).on(root.shown(&entry.path)))?;
    root.ops.one();
    match rustix::fs::ioctl_ficlone(&staged.file, from) {
        Ok(()) => {}
        Err(Errno::NOTSUP | Errno::XDEV | Errno::INVAL | Errno::NOTTY | Errno::NOSYS | Errno::PERM) => {
            stage::remove(&staged.part).map_err(failed)?;
            return Ok(None);
        }
        Err(errno) => return Err(failed(errno)),
    }
    metadata.set(&On::File(&staged), entry).map_err(failed)?;
    if durable {
        root.ops.one();
        staged.file.sync_data().map_err(|e| {
            staged.abandon();
            Error::io(root.side(), "sync", &e).on(root.shown(&entry.path))
        })?;
    }
    staged.publish(root, &entry.path)?;
    Ok(Some(Outcome::Committed(None)))
}
