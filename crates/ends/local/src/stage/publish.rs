//! Renaming staged files into place.

use haul_core::{Error, RelPath, Result};
use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::mark;
use super::staged::Staged;
use crate::path::root::Root;
use crate::path::stat;
use crate::tree::local_tree::LocalTree;

impl Staged {
    /// Renames the file to its final name.
    ///
    /// # Errors
    /// `Unsupported` if another entry has the name in another case, `NotEmpty` if a directory with content is in the
    /// way.
    pub(crate) fn publish(&self, tree: &LocalTree, path: &RelPath) -> Result<()> {
        tree.reserve_name(&self.part, &self.now, path)?;
        tree.root.back_up(&self.at, path)?;
        self.rename_into_place().map_err(|errno| match errno {
            Errno::NOTEMPTY | Errno::EXIST => not_empty(&tree.root, path),
            errno => tree.root.error("rename into place", path, errno),
        })
    }

    /// Renames the file, and removes an empty directory in its place.
    fn rename_into_place(&self) -> rustix::io::Result<()> {
        if self.keyed {
            if stat::statx(&self.at).is_ok_and(|now| stat::is_dir(&now)) {
                self.at.unlink(AtFlags::REMOVEDIR)?;
            }
            // Right before the rename: without the key, the journal of the staged file no longer counts.
            mark::remove_key(&self.file);
        }
        let rename = || self.part.rename(&self.at);
        match rename() {
            Err(Errno::ISDIR) => {
                self.at.unlink(AtFlags::REMOVEDIR)?;
                rename()
            }
            other => other,
        }
    }
}

/// The error of an entry in whose place there is a directory with content.
pub(crate) fn not_empty(root: &Root, path: &RelPath) -> Error {
    Error::not_empty(root.side()).on(root.shown(path))
}
