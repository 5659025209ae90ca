//! Small files that are made under their final names: a request costs a round trip, and staging a file costs three
//! more.
//!
//! Only if no file has the name. Until such a file is complete and synced, its modification time is that of its making;
//! the final time is set last, and marks the file as complete. A killed run leaves files with other times, which the
//! next run replaces as any file that differs.

use std::fs::File;
use std::os::fd::IntoRawFd;

use haul_core::{Compare, Entry, Error, Preserve, Result, SinkOptions, SliceData};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::dir_prefetch::has_staged;
use crate::path::stat;
use crate::path::xattrs::has_default_acl;
use crate::stage::names::part_of;
use crate::stage::small::first_mode;
use crate::stage::staged::Staged;
use crate::stage::write::{OutputFile, write_whole};
use crate::tree::local_tree::LocalTree;

/// Whether files may be made directly: on a network file system, if later runs compare times.
pub(crate) fn is_allowed(tree: &LocalTree, options: &SinkOptions) -> bool {
    tree.is_network_fs()
        && !options.atomic
        && !options.verify_disk
        && options.compare != Compare::SizeOnly
        && !options.ignore_existing
        && !options.update
        // An unfinished file is no older version.
        && options.backup.is_none()
        // The times mark complete files.
        && options.preserve.times
        && options.modify_window.is_none_or(|window| window < 1)
}

/// Makes a small file with its content. `None` if the name or a staged file exists, or the file can only be staged.
pub(crate) fn make(
    tree: &LocalTree,
    entry: &Entry,
    data: &SliceData,
    content: &[u8],
    preserve: &Preserve,
) -> Result<Option<Staged>> {
    let root = &tree.root;
    let failed = |errno| root.error("make", &entry.path, errno);
    let at = root.at_made(&entry.path).map_err(failed)?;
    if has_staged(&at.dir, &part_of(&at).name) {
        return Ok(None);
    }
    let mode = first_mode(entry, preserve, has_default_acl(&at.dir));
    let file = match at.open(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, mode) {
        Ok(file) => File::from(file),
        Err(Errno::EXIST | Errno::ACCESS) => return Ok(None),
        Err(errno) => return Err(failed(errno)),
    };
    let now = stat::statx_file(&file).map_err(failed)?;
    let dev = stat::device(&now);
    let part = at.clone();
    let staged = Staged { at, part, file, dev, now, found: false, direct: true, keyed: false };
    let output = OutputFile { ops: &root.ops, file: &staged.file, is_remote: tree.is_network_fs() };
    match write_whole(&output, entry, data, content) {
        Ok(()) => {
            tree.reserve_name(&staged.at, &staged.now, &entry.path)?;
            Ok(Some(staged))
        }
        Err(e) => {
            staged.abandon();
            Err(Error::io(root.side(), "write", &e).on(root.shown(&entry.path)))
        }
    }
}

/// Closes a file. Network file systems may report lost content only then.
pub(crate) fn close(file: File) -> rustix::io::Result<()> {
    // SAFETY: the handle was owned by `file`, which is gone, and nothing else has its number.
    #[allow(unsafe_code)]
    unsafe {
        rustix::io::try_close(file.into_raw_fd())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use haul_core::{EntryKind, Extent, RelPath, Side};

    use super::*;
    use crate::path::place::RootEntry;
    use crate::path::root::Root;

    fn tree(dir: &std::path::Path, is_network_fs: bool) -> LocalTree {
        LocalTree::on(Root::new(RootEntry::new(dir, b"."), Side::Destination, Arc::default()), is_network_fs)
    }

    fn make_file(tree: &LocalTree, name: &str, content: &[u8]) -> Result<Option<Staged>> {
        let entry = Entry::new(RelPath::new(name.as_bytes()).unwrap(), EntryKind::File, 3);
        let data = SliceData { extents: vec![Extent::data(0, 3)], value: Default::default() };
        make(tree, &entry, &data, content, &Preserve::default())
    }

    #[test]
    fn files_are_made_directly_if_later_runs_compare_times() {
        let dir = tempfile::tempdir().unwrap();
        let options = SinkOptions::default;
        let allowed =
            |is_network_fs, options: SinkOptions| is_allowed(&tree(dir.path(), is_network_fs), &options);
        assert!(allowed(true, options()) && !allowed(false, options()));
        assert!(allowed(true, SinkOptions { modify_window: Some(0), ..options() }));
        for refused in [
            SinkOptions { atomic: true, ..options() },
            SinkOptions { verify_disk: true, ..options() },
            SinkOptions { compare: Compare::SizeOnly, ..options() },
            SinkOptions { ignore_existing: true, ..options() },
            SinkOptions { update: true, ..options() },
            SinkOptions { modify_window: Some(1), ..options() },
            SinkOptions { preserve: Preserve { times: false, ..Preserve::default() }, ..options() },
        ] {
            assert!(!allowed(true, refused));
        }
    }

    #[test]
    fn a_file_is_made_unless_its_name_or_a_staged_file_exists() {
        let dir = tempfile::tempdir().unwrap();
        let tree = tree(dir.path(), true);
        let made = make_file(&tree, "new", b"abc").unwrap().unwrap();
        assert!(made.direct);
        assert_eq!(std::fs::read(dir.path().join("new")).unwrap(), b"abc");
        made.abandon();
        assert!(!dir.path().join("new").exists());
        close(made.file).unwrap();

        std::fs::write(dir.path().join("old"), "x").unwrap();
        assert!(make_file(&tree, "old", b"abc").unwrap().is_none());
        let at = tree.root.at(&RelPath::new(b"d/f").unwrap());
        assert!(at.is_err());
        std::fs::create_dir(dir.path().join("d")).unwrap();
        let at = tree.root.at(&RelPath::new(b"d/f").unwrap()).unwrap();
        let staged = std::ffi::OsString::from(String::from_utf8(part_of(&at).name).unwrap());
        std::fs::write(dir.path().join("d").join(staged), "").unwrap();
        assert!(make_file(&tree, "d/f", b"abc").unwrap().is_none(), "it is staged");
        assert!(make_file(&tree, "d/g", b"abc").unwrap().is_some());
    }

    #[test]
    fn a_file_that_cannot_be_written_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        assert!(make_file(&tree(dir.path(), true), "f", b"ab").is_err(), "content is missing");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
