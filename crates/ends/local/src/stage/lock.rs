//! Locks on staged files.

use std::os::fd::AsFd;
use std::time::Duration;

use haul_core::{ErrorKind, RelPath, Result};
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::tree::local_tree::LocalTree;

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// Locks a file that is being written, if the file system has locks.
///
/// # Errors
/// `Busy` if another process holds the lock beyond the timeout.
pub(crate) fn lock(tree: &LocalTree, path: &RelPath, file: &impl AsFd) -> Result<()> {
    match wait_for_lock(tree, file) {
        Ok(()) | Err(Errno::NOLCK | Errno::NOTSUP | Errno::INVAL) => Ok(()),
        Err(Errno::WOULDBLOCK) => {
            let cause = "another haul is writing this file";
            Err(tree.root.fault(ErrorKind::Busy, "write", path, cause))
        }
        Err(errno) => Err(tree.root.error("write", path, errno)),
    }
}

/// Locks the file if nobody else holds the lock.
pub(crate) fn try_lock(file: &impl AsFd) -> rustix::io::Result<()> {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)
}

/// Waits for the lock. A killed run, or an earlier write of this run whose connection died, holds it for a moment only.
/// After a lock that was held for longer, the timeout of the next one is shorter.
fn wait_for_lock(tree: &LocalTree, file: &impl AsFd) -> rustix::io::Result<()> {
    let mut waited = Duration::ZERO;
    loop {
        match try_lock(file) {
            Err(Errno::WOULDBLOCK) if waited < tree.lock_timeout.get() => {
                std::thread::sleep(PAUSE);
                waited += PAUSE;
            }
            Err(Errno::WOULDBLOCK) => {
                tree.lock_timeout.shorten();
                return Err(Errno::WOULDBLOCK);
            }
            other => return other,
        }
    }
}
