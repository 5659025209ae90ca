//! Removing names.

use haul_core::{ErrorKind, RelPath, Result};
use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::state::LocalSink;
use crate::path::stat;
use crate::stage::clean::clean_directory;

impl LocalSink {
    /// Removes a file or an empty directory.
    ///
    /// # Errors
    /// `Unsupported` if this run may have written it through a symbolic link that it keeps, `NotEmpty` for a directory with
    /// content, `InUse` for the name of another entry of this run in another case.
    pub(super) fn remove_one(&self, path: &RelPath) -> Result<()> {
        let _doing = self.tree().doing("remove", path);
        if self.root().is_behind_link(path) {
            let cause =
                "a symbolic link leads to its directory, and the source has a directory in place of the link";
            let error = self.root().fault(ErrorKind::Unsupported, "remove", path, cause);
            return Err(error.with_hint("exclude that directory, or omit --keep-dirlinks"));
        }
        match self.try_remove(path) {
            Ok(true) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
            Ok(false) => {
                let cause = "it is an entry of the source in another case";
                Err(self.root().fault(ErrorKind::InUse, "remove", path, cause))
            }
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                let cause = "the directory is not empty";
                Err(self.root().fault(ErrorKind::NotEmpty, "remove", path, cause))
            }
            Err(errno) => Err(self.root().error("remove", path, errno)),
        }
    }

    /// `false` if the name is that of another entry in another case.
    fn try_remove(&self, path: &RelPath) -> rustix::io::Result<bool> {
        let at = self.root().at(path)?;
        let now = stat::statx(&at)?;
        let is_dir = stat::is_dir(&now);
        if self.tree().is_other_case(&at, &now, path) {
            return Ok(false);
        }
        if self.options.dry_run {
            return Ok(true);
        }
        let flags = if is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        if is_dir {
            self.root().forget(path);
        } else {
            match self.root().give_up(&at, path) {
                Err(Errno::ACCESS) if self.tree().unlocked.unlock_parent(path, &at) => {
                    self.root().give_up(&at, path)?;
                }
                kept => kept?,
            }
        }
        match at.unlink(flags) {
            Err(Errno::ACCESS) if self.tree().unlocked.unlock_parent(path, &at) => at.unlink(flags),
            Err(Errno::NOTEMPTY | Errno::EXIST) if is_dir && clean_directory(&at) => at.unlink(flags),
            other => other,
        }
        .map(|()| true)
    }

    /// Removes a file. Whether it is gone; otherwise [`Self::remove_one`] finds out why.
    pub(super) fn unlink(&self, path: &RelPath) -> bool {
        if self.root().is_behind_link(path) {
            return false;
        }
        let unlinked = self.root().at(path).and_then(|at| {
            // If the directory ignores case, the name may belong to an entry of this run.
            match stat::statx(&at) {
                Ok(now) if self.tree().is_other_case(&at, &now, path) => Err(Errno::EXIST),
                _ => self.root().give_up(&at, path).and_then(|()| at.remove()),
            }
        });
        matches!(unlinked, Ok(()) | Err(Errno::NOENT))
    }
}
