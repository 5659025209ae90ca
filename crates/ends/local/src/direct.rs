//! Small files on a network file system: made under their own names, as each request costs a round trip there and a
//! new name under which to rename one costs three.
//!
//! Only where nothing has that name. Until such a file is complete and synced, its modification time is that of its
//! making; its own, set last, says that it is complete. A run that is killed leaves files that differ in it, and so
//! are copied again by the next one, which replaces them as it does any file that differs.

use std::fs::File;
use std::os::fd::IntoRawFd;

use haul_core::{Compare, Entry, Error, Result, SinkOptions, SliceData};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::root::Root;
use super::stage::{self, Staged};
use super::stat;

/// Whether files may be made so: the file system is far away, and who compares will look at the times.
pub(super) fn is_for(root: &Root, options: &SinkOptions) -> bool {
    root.is_network_fs()
        && !options.atomic
        && !options.verify_disk
        && options.compare != Compare::SizeOnly
        && !options.ignore_existing
        && !options.update
        && options.modify_window.is_none_or(|window| window < 1)
}

/// Makes a small file with its content; `None` if something has that name, or only the strict way can make it.
pub(super) fn make(root: &Root, entry: &Entry, data: &SliceData, content: &[u8]) -> Result<Option<Staged>> {
    let failed = |errno| root.error("make", &entry.path, errno);
    let at = root.at_made(&entry.path).map_err(failed)?;
    if at.dir.has_staged(&stage::part_of(&at).name) {
        // The strict way takes it over.
        return Ok(None);
    }
    let file =
        match at.open(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, first_mode(entry, at.dir.hands_down())) {
            Ok(file) => File::from(file),
            Err(Errno::EXIST | Errno::ACCESS) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
    let now = stat::statx_file(&file).map_err(failed)?;
    let dev = (now.stx_dev_major, now.stx_dev_minor);
    let part = at.clone();
    let staged = Staged { at, part, file, dev, now, found: false, direct: true, keyed: false };
    match stage::write_whole(&root.ops, &staged.file, entry, data, content) {
        Ok(()) => {
            root.folding.take(root, &staged.at, &staged.now, &entry.path)?;
            Ok(Some(staged))
        }
        Err(e) => {
            staged.abandon();
            Err(Error::io(root.side(), "write", &e).on(root.shown(&entry.path)))
        }
    }
}

/// The mode that a file is made with: its own if that lets nobody in who is not to be let in, which also depends on
/// its owner and its attributes, and these come later; or the folder `hands_down` some that let others in.
pub(super) fn first_mode(entry: &Entry, hands_down: bool) -> Mode {
    let ours =
        entry.uid == rustix::process::geteuid().as_raw() && entry.gid == rustix::process::getegid().as_raw();
    let mode = entry.mode & 0o777;
    Mode::from_raw_mode(if hands_down || !entry.xattrs.is_empty() {
        0o600
    } else if ours {
        mode
    } else {
        // What owner, group and others all may is no more to anybody than what he is to have.
        let all = (mode >> 6) & (mode >> 3) & mode & 0o7;
        (mode & 0o600) | all | all << 3 | all << 6
    })
}

/// Closes a file; network file systems may say only then that content could not be written.
pub(super) fn close(file: File) -> rustix::io::Result<()> {
    // SAFETY: the handle was owned by `file`, which is gone, and nothing else has its number.
    #[allow(unsafe_code)]
    unsafe {
        rustix::io::try_close(file.into_raw_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::{EntryKind, RelPath};

    #[test]
    fn nobody_is_let_in_before_the_owner_is_set() {
        let uid = rustix::process::geteuid().as_raw() + 1;
        let mut entry = Entry { uid, ..Entry::new(RelPath::root(), EntryKind::File, 0) };
        for (mode, first) in
            [(0o644, 0o644), (0o755, 0o755), (0o640, 0o600), (0o604, 0o600), (0o4755, 0o755), (0o664, 0o644)]
        {
            entry.mode = mode;
            assert_eq!(first_mode(&entry, false).as_raw_mode(), first, "{mode:o}");
        }
        assert_eq!(first_mode(&entry, true).as_raw_mode(), 0o600);
        entry.xattrs = vec![Default::default()];
        assert_eq!(first_mode(&entry, false).as_raw_mode(), 0o600);
    }
}
