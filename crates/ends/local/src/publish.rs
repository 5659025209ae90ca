//! Staged files get their names.

use haul_core::{Error, RelPath, Result};
use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::root::Root;
use super::stage::Staged;
use super::{mark, stat};

impl Staged {
    /// Gives it its final name, if no other entry has that in another case.
    pub(super) fn publish(&self, root: &Root, path: &RelPath) -> Result<()> {
        root.folding.take(root, &self.part, &self.now, path)?;
        self.give_name().map_err(|errno| match errno {
            Errno::NOTEMPTY | Errno::EXIST => not_empty(root, path),
            errno => root.error("give its name to", path, errno),
        })
    }

    /// An empty folder in its place gives way; one with something in it does not.
    fn give_name(&self) -> rustix::io::Result<()> {
        if self.keyed {
            if stat::statx(&self.at).is_ok_and(|now| stat::is_dir(&now)) {
                self.at.unlink(AtFlags::REMOVEDIR)?;
            }
            // Right before: without it, the journal of what is staged does not count any more.
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

/// The error of an entry in whose place there is a folder with something in it.
pub(super) fn not_empty(root: &Root, path: &RelPath) -> Error {
    Error::not_empty(root.side()).on(root.shown(path))
}
