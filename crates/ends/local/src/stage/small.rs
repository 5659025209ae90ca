//! Staging small files, and the modes that new files begin with.

use haul_core::{Entry, Error, Preserve, Result, SliceData};
use rustix::fs::Mode;

use super::staged::Staged;
use super::write::{OutputFile, write_whole};
use crate::path::at::At;
use crate::path::xattrs::has_default_acl;
use crate::tree::local_tree::LocalTree;

/// Stages a whole small file. `None` if `exists` finds the entry itself.
pub(crate) fn stage_small(
    tree: &LocalTree,
    entry: &Entry,
    data: &SliceData,
    content: &[u8],
    preserve: &Preserve,
    exists: &dyn Fn(&At) -> bool,
) -> Result<Option<Staged>> {
    let mode = |at: &At| first_mode(entry, preserve, has_default_acl(&at.dir));
    let Some(staged) = Staged::open_unless(tree, &entry.path, &mode, exists)? else { return Ok(None) };
    let output = OutputFile { ops: &tree.root.ops, file: &staged.file, is_remote: tree.is_network_fs() };
    match staged.clear().and_then(|()| write_whole(&output, entry, data, content)) {
        Ok(()) => Ok(Some(staged)),
        Err(e) => {
            staged.abandon();
            Err(Error::io(tree.root.side(), "write", &e).on(tree.root.shown(&entry.path)))
        }
    }
}

/// The mode of a new file. It must not allow more than the final mode, owner and attributes, which are set later, will.
/// An inherited default ACL may allow others.
pub(crate) fn first_mode(entry: &Entry, preserve: &Preserve, has_default_acl: bool) -> Mode {
    let us = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let ours = preserve.ids((entry.uid, entry.gid), us) == us;
    let has_xattrs = preserve.xattrs_of(&entry.xattrs).next().is_some();
    let mode = entry.mode & 0o777;
    Mode::from_raw_mode(if has_default_acl || has_xattrs || !preserve.perms {
        0o600
    } else if ours {
        mode
    } else {
        // Bits that owner, group and others all have are allowed to everybody in the end.
        let all = (mode >> 6) & (mode >> 3) & mode & 0o7;
        (mode & 0o600) | all | all << 3 | all << 6
    })
}

#[cfg(test)]
mod tests {
    use haul_core::{EntryKind, RelPath};

    use super::*;

    #[test]
    fn nobody_is_let_in_before_the_owner_is_set() {
        let uid = rustix::process::geteuid().as_raw() + 1;
        let all = Preserve::default();
        let mut entry = Entry { uid, ..Entry::new(RelPath::root(), EntryKind::File, 0) };
        for (mode, first) in
            [(0o644, 0o644), (0o755, 0o755), (0o640, 0o600), (0o604, 0o600), (0o4755, 0o755), (0o664, 0o644)]
        {
            entry.mode = mode;
            assert_eq!(first_mode(&entry, &all, false).as_raw_mode(), first, "{mode:o}");
        }
        assert_eq!(first_mode(&entry, &all, true).as_raw_mode(), 0o600);
        let kept = Preserve { perms: false, ..all };
        assert_eq!(first_mode(&entry, &kept, false).as_raw_mode(), 0o600, "the final mode may be that");
        entry.gid = rustix::process::getegid().as_raw();
        let ours = Preserve { owner: false, ..all };
        assert_eq!(first_mode(&entry, &ours, false).as_raw_mode(), 0o664, "the owner stays");
        entry.xattrs = vec![Default::default()];
        assert_eq!(first_mode(&entry, &all, false).as_raw_mode(), 0o600);
    }
}
