//! The names of staged files and their journals, and checks of the files under such names.

use haul_core::staging::{JOURNAL, PART, staging_name};
use rustix::fs::Statx;

use crate::path::at::At;
use crate::path::stat;

/// The staging name of the file at `at`.
pub(crate) fn part_of(at: &At) -> At {
    at.sibling(&staging_name(&at.name, PART))
}

/// The name of the journal of the file at `at`.
pub(crate) fn journal_of(at: &At) -> At {
    at.sibling(&staging_name(&at.name, JOURNAL))
}

/// Whether the name stands for the inode with this metadata.
pub(crate) fn is_named(now: &Statx, at: &At) -> bool {
    stat::statx(at).is_ok_and(|named| stat::inode(&named) == stat::inode(now))
}

/// Whether the file is regular, has one name, and belongs to this user. Any other file was planted by somebody.
pub(crate) fn is_ours(now: &Statx) -> bool {
    stat::is_file(now) && now.stx_nlink == 1 && now.stx_uid == rustix::process::geteuid().as_raw()
}

/// Removes the name if it stands for the inode with this metadata: another run may use the name by now.
pub(crate) fn remove_if(at: &At, now: &Statx) {
    if is_named(now, at) {
        let _ = at.remove();
    }
}
