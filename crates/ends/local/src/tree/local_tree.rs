//! The tree of one end: its root, with the state that the run keeps beside it.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use haul_core::entry::Xattr;
use haul_core::{HungOperation, RelPath, Result, Side};
use rustix::fs::Statx;
use rustix::io::Errno;

use super::devices::Devices;
use super::folding::Folding;
use super::in_flight::{OperationGuard, OperationsInFlight};
use super::lock_timeout::LockTimeout;
use super::network;
use super::unlocked::Unlocked;
use super::xattr_support::XattrSupport;
use crate::path::at::At;
use crate::path::root::{Root, nonempty};
use crate::path::stat;
use crate::path::xattrs::{XattrsOf, read_or_unsupported};

/// A root, and the known facts about the file systems below it.
pub(crate) struct LocalTree {
    pub(crate) root: Root,
    is_network_fs: bool,
    pub(crate) xattr_support: XattrSupport,
    pub(crate) lock_timeout: LockTimeout,
    /// The file systems of a destination.
    pub(crate) devices: Arc<Devices>,
    /// Directories that were made accessible for the run.
    pub(crate) unlocked: Unlocked,
    folding: Folding,
    in_flight: OperationsInFlight,
}

impl LocalTree {
    pub(crate) fn new(root: Root) -> Self {
        let path = root.path();
        let is_network_fs = path.ancestors().map(nonempty).find_map(network::is_network_fs).unwrap_or(false);
        Self::on(root, is_network_fs)
    }

    /// A tree whose file system counts as one reached over a network, or as a local one.
    pub(crate) fn on(mut root: Root, is_network_fs: bool) -> Self {
        if is_network_fs {
            root.hold_more_dirs();
        }
        let devices = Arc::new(Devices::default());
        if root.side() == Side::Destination {
            let devices = Arc::clone(&devices);
            root.watch(move |dir| devices.note(dir));
        }
        Self {
            root,
            is_network_fs,
            xattr_support: XattrSupport::default(),
            lock_timeout: LockTimeout::default(),
            devices,
            unlocked: Unlocked::default(),
            folding: Folding::new(is_network_fs),
            in_flight: OperationsInFlight::default(),
        }
    }

    /// Whether the root is, or will be, on a network file system.
    pub(crate) fn is_network_fs(&self) -> bool {
        self.is_network_fs
    }

    /// Whether a file is on the same mounted file system as the root.
    pub(crate) fn shares_device(&self, file: &File) -> bool {
        stat::statx_file(file).is_ok_and(|file| self.is_on_device(&file))
    }

    fn is_on_device(&self, now: &Statx) -> bool {
        let root = self.root.dir(&RelPath::root(), false).and_then(stat::statx_file);
        root.is_ok_and(|root| stat::device(&root) == stat::device(now))
    }

    /// The carried attributes of `of`, whose plain metadata is `now`; none if the file system has no attributes.
    pub(crate) fn xattrs(&self, of: &XattrsOf<'_>, now: &Statx) -> rustix::io::Result<Vec<Xattr>> {
        if !self.xattr_support.is_likely() {
            return Ok(Vec::new());
        }
        match read_or_unsupported(&self.root.ops, of) {
            Err(Errno::NOTSUP) => {
                // The refusal of another file system, mounted below, is only about itself.
                if self.is_network_fs && self.is_on_device(now) {
                    self.xattr_support.refuse();
                }
                Ok(Vec::new())
            }
            other => other,
        }
    }

    /// Counts an operation on the entry at `path` as in flight until the guard is dropped. Only on network file
    /// systems, where it may hang.
    pub(crate) fn doing(&self, what: &'static str, path: &RelPath) -> Option<OperationGuard<'_>> {
        self.is_network_fs.then(|| self.in_flight.begin(what, path))
    }

    /// The operations that have run for `timeout` or longer.
    pub(crate) fn hung(&self, timeout: Duration) -> Vec<HungOperation> {
        if self.root.ops.is_waited_for() {
            // They may wait for the operation limit.
            return Vec::new();
        }
        let hung = self.in_flight.older_than(timeout).into_iter();
        hung.map(|(what, path)| HungOperation { operation: what.to_owned(), path: self.root.shown(&path) })
            .collect()
    }

    /// Reserves the name of the entry at `path`. At `at`, in the same directory, is that entry or its staged file.
    ///
    /// # Errors
    /// `Unsupported` if the directory ignores case and another entry has the name in another case.
    pub(crate) fn reserve_name(&self, at: &At, now: &Statx, path: &RelPath) -> Result<()> {
        self.folding.reserve(&self.root, at, now, path)
    }

    /// Whether the name at `at` is that of another entry of this run, in another case.
    pub(crate) fn is_other_case(&self, at: &At, now: &Statx, path: &RelPath) -> bool {
        self.folding.is_other(at, now, path)
    }
}

#[cfg(test)]
mod tests {
    use haul_core::Ops;

    use super::*;
    use crate::path::place::RootEntry;

    fn tree(dir: &std::path::Path, is_network_fs: bool) -> LocalTree {
        let root = Root::new(RootEntry::new(dir, b"."), Side::Destination, Arc::new(Ops::default()));
        LocalTree::on(root, is_network_fs)
    }

    #[test]
    fn operations_are_counted_on_network_file_systems_only() {
        let dir = tempfile::tempdir().unwrap();
        for is_network_fs in [false, true] {
            let tree = tree(dir.path(), is_network_fs);
            let guard = tree.doing("list", &RelPath::new(b"d").unwrap());
            let hung = tree.hung(Duration::ZERO);
            assert_eq!(hung.len(), usize::from(is_network_fs));
            if is_network_fs {
                assert!(hung[0].path.ends_with(b"/d") && hung[0].operation == "list");
            }
            drop(guard);
            assert!(tree.hung(Duration::ZERO).is_empty());
        }
    }

    #[test]
    fn attributes_are_not_asked_for_after_a_refusal() {
        // On the disk of the build, which has attributes.
        let dir = tempfile::tempdir_in(".").unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "").unwrap();
        rustix::fs::setxattr(&path, "user.x", b"1", rustix::fs::XattrFlags::empty()).unwrap();
        let tree = tree(dir.path(), true);
        let file = File::open(&path).unwrap();
        let now = stat::statx_file(&file).unwrap();
        let at = tree.root.at(&RelPath::new(b"f").unwrap()).unwrap();
        assert_eq!(tree.xattrs(&XattrsOf::Name(&at), &now).unwrap().len(), 1);
        tree.xattr_support.refuse();
        assert_eq!(tree.xattrs(&XattrsOf::Name(&at), &now).unwrap(), []);
        assert!(tree.shares_device(&file) && !tree.shares_device(&File::open("/proc/self/status").unwrap()));
    }
}
