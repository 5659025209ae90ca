//! Removes entries of a source after they were copied, if they are still those that were copied.

use std::collections::HashMap;

use haul_core::policy::ExistingKind;
use haul_core::source::{REMOVE, changed_since_copied};
use haul_core::sync::Mutex;
use haul_core::{Entry, ErrorKind, RelPath, Result, Timestamp};
use rustix::fs::{AtFlags, Mode, OFlags, StatVfsMountFlags, Statx};
use rustix::io::Errno;

use crate::path::root::Root;
use crate::path::stat;
use crate::tree::local_tree::LocalTree;

/// The files of which this source removed one of several names. That changed their change times.
#[derive(Default)]
pub(crate) struct RemovedNames {
    /// The new change times, by device and inode.
    renamed: Mutex<HashMap<(u64, u64), Timestamp>>,
}

/// Whether anything may be removed below the root at all.
///
/// # Errors
/// `PermissionDenied` if the file system is mounted read-only.
pub(crate) fn check_writable(root: &Root) -> Result<()> {
    // Any other obstacle is an error of each entry.
    let Ok(at) = root.at(&RelPath::root()) else { return Ok(()) };
    match rustix::fs::fstatvfs(&at.dir) {
        Ok(vfs) if vfs.f_flag.contains(StatVfsMountFlags::RDONLY) => {
            let cause = "the file system is mounted read-only";
            Err(root.fault(ErrorKind::PermissionDenied, REMOVE, &RelPath::root(), cause))
        }
        _ => Ok(()),
    }
}

impl RemovedNames {
    /// Removes the entry. A missing one counts as removed.
    ///
    /// # Errors
    /// `SourceChanged` if it is not the entry that was copied; else that of the system.
    pub(crate) fn remove(&self, tree: &LocalTree, entry: &Entry) -> Result<()> {
        let path = &entry.path;
        let _doing = tree.doing(REMOVE, path);
        match self.try_remove(&tree.root, entry) {
            Ok(true) | Err(Errno::NOENT) => Ok(()),
            Ok(false) => Err(changed_since_copied().on(tree.root.shown(path))),
            Err(errno) => Err(tree.root.error(REMOVE, path, errno)),
        }
    }

    /// `false` if it is another entry.
    fn try_remove(&self, root: &Root, entry: &Entry) -> rustix::io::Result<bool> {
        let at = root.at(&entry.path)?;
        let held = at.open(OFlags::PATH, Mode::empty())?;
        // Two names of one file are removed one after the other.
        let mut renamed = (entry.nlink > 1).then(|| self.renamed.lock());
        let now = stat::statx_fresh(&held)?;
        let inode = stat::inode(&now);
        let expected = renamed.as_ref().and_then(|renamed| renamed.get(&inode).copied()).or(entry.ctime);
        // Between this look and the removal a writer that does not close the file cannot be told.
        if !is_same(entry, &now, expected) {
            return Ok(false);
        }
        at.unlink(AtFlags::empty())?;
        if let Some(renamed) = &mut renamed {
            match stat::statx_fresh(&held) {
                Ok(left) if left.stx_nlink > 0 => drop(renamed.insert(inode, stat::ctime(&left))),
                _ => drop(renamed.remove(&inode)),
            }
        }
        Ok(true)
    }
}

/// Whether the inode has the kind, length, times and number of the entry.
fn is_same(entry: &Entry, now: &Statx, ctime: Option<Timestamp>) -> bool {
    let len = if stat::is_file(now) { now.stx_size } else { 0 };
    stat::policy_kind(stat::kind(now)) == Some(ExistingKind::from(&entry.kind))
        && !stat::is_dir(now)
        && (len, now.stx_ino, stat::mtime(now)) == (entry.len, entry.ino, entry.mtime)
        && ctime.is_none_or(|ctime| ctime == stat::ctime(now))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::Arc;

    use haul_core::{Side, Source};

    use super::*;
    use crate::path::place::RootEntry;
    use crate::scene::{path, pool};
    use crate::source::LocalSource;

    fn source(dir: &std::path::Path) -> LocalSource {
        LocalSource::new(Root::new(RootEntry::new(dir, b"."), Side::Source, Arc::default()), pool(), None)
    }

    fn seen(source: &LocalSource, names: &[&str]) -> Vec<Entry> {
        let paths: Vec<_> = names.iter().map(|name| path(name)).collect();
        source.lookup(&paths).unwrap().into_iter().map(|one| one.unwrap().unwrap()).collect()
    }

    #[test]
    fn only_entries_that_are_still_the_same_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["same", "longer", "touched", "replaced", "gone", "chmod"] {
            fs::write(at(name), "abc").unwrap();
        }
        symlink("same", at("link")).unwrap();
        symlink("same", at("other-link")).unwrap();
        let source = source(dir.path());
        let names = ["same", "link", "gone", "longer", "touched", "replaced", "other-link", "chmod"];
        let entries = seen(&source, &names);
        fs::remove_file(at("gone")).unwrap();
        fs::write(at("longer"), "abcd").unwrap();
        let stamp = fs::metadata(at("touched")).unwrap().modified().unwrap();
        fs::write(at("touched"), "xyz").unwrap();
        // The same length and modification time: the change time tells.
        fs::File::options().write(true).open(at("touched")).unwrap().set_modified(stamp).unwrap();
        fs::write(at("new"), "abc").unwrap();
        fs::rename(at("new"), at("replaced")).unwrap();
        fs::remove_file(at("other-link")).unwrap();
        symlink("else", at("other-link")).unwrap();
        fs::set_permissions(at("chmod"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let removed = source.remove_unchanged(&entries).unwrap();
        let kept: Vec<_> = removed.iter().map(|one| one.as_ref().err().map(haul_core::Error::kind)).collect();
        let changed = Some(ErrorKind::SourceChanged);
        assert_eq!(kept, [None, None, None, changed, changed, changed, changed, changed]);
        assert!(!at("same").exists() && at("link").symlink_metadata().is_err());
        for name in &names[3..] {
            assert!(at(name).symlink_metadata().is_ok(), "{name}");
        }
        assert_eq!(source.remove_unchanged(&entries[..3]).unwrap(), [Ok(()), Ok(()), Ok(())], "repeated");
    }

    #[test]
    fn all_names_of_a_file_are_removed_and_directories_stay() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("a"), "abc").unwrap();
        fs::hard_link(at("a"), at("b")).unwrap();
        fs::hard_link(at("a"), at("c")).unwrap();
        fs::create_dir(at("d")).unwrap();
        let source = source(dir.path());
        let entries = seen(&source, &["a", "b", "c", "d"]);
        assert_eq!(source.remove_unchanged(&entries[..2]).unwrap(), [Ok(()), Ok(())]);
        fs::write(at("c"), "abcd").unwrap();
        let removed = source.remove_unchanged(&entries[2..]).unwrap();
        for one in removed {
            assert_eq!(one.unwrap_err().kind(), ErrorKind::SourceChanged);
        }
        assert!(at("c").exists() && at("d").exists());
        assert_eq!(source.remove_unchanged(&[]).unwrap(), []);
    }
}
