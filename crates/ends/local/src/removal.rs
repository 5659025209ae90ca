//! Removing names.

use haul_core::{ErrorKind, RelPath, Result};
use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::sink::LocalSink;
use super::{leftovers, stage, stat};

impl LocalSink {
    pub(super) fn remove_one(&self, path: &RelPath) -> Result<()> {
        let _doing = self.root().doing("remove", path);
        let remove = || -> rustix::io::Result<bool> {
            let at = self.root().at(path)?;
            let now = stat::statx(&at)?;
            let is_dir = stat::is_dir(&now);
            if self.root().folding.is_other(self.root(), &at, &now, path) {
                return Ok(false);
            }
            if self.options().dry_run {
                return Ok(true);
            }
            let flags = if is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            if is_dir {
                self.root().forget(path);
            }
            match at.unlink(flags) {
                Err(Errno::ACCESS) if self.root().unlock_parent(path, &at) => at.unlink(flags),
                Err(Errno::NOTEMPTY | Errno::EXIST) if is_dir && leftovers::clean_folder(&at) => {
                    at.unlink(flags)
                }
                other => other,
            }
            .map(|()| true)
        };
        match remove() {
            Ok(true) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
            Ok(false) => {
                let cause = "it is an entry of the source in another case";
                Err(self.root().fault(ErrorKind::InUse, "remove", path, cause))
            }
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                let cause = "the folder is not empty";
                Err(self.root().fault(ErrorKind::NotEmpty, "remove", path, cause))
            }
            Err(errno) => Err(self.root().error("remove", path, errno)),
        }
    }
}

impl LocalSink {
    /// Removes what is no folder. Whether it is gone; if not, what stands in the way is found out otherwise.
    pub(super) fn unlink(&self, path: &RelPath) -> bool {
        let root = self.root();
        let unlinked = root.at(path).and_then(|at| {
            // Where case is not told apart, it may be an entry of this run.
            match stat::statx(&at) {
                Ok(now) if root.folding.is_other(root, &at, &now, path) => Err(Errno::EXIST),
                _ => stage::remove(&at),
            }
        });
        matches!(unlinked, Ok(()) | Err(Errno::NOENT))
    }
}
