//! What killed runs have left in a folder that is to be removed.

use std::sync::Arc;

use rustix::fs::{FlockOperation, Mode, OFlags};

use super::root::{At, Dir};
use super::stage::{is_named, is_ours, is_staging_name, remove};
use super::stat;

/// Removes what killed runs have left in a folder that is to be removed. Whether there was anything.
pub(super) fn clean_folder(at: &At) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let Ok(opened) = at.open(flags, Mode::empty()) else { return false };
    let Ok(names) = rustix::fs::Dir::read_from(&opened) else { return false };
    let dir = Arc::new(Dir::new(opened, false, &at.dir.ops));
    let staged = names.flatten().filter(|entry| is_staging_name(entry.file_name().to_bytes()));
    let mut removed = false;
    for entry in staged {
        let left = At { dir: dir.clone(), name: entry.file_name().to_bytes().to_vec() };
        let Ok(file) = left.open(OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()) else { continue };
        // Another haul may be at work on it.
        let is_free = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        let is_stale = stat::statx_file(&file).is_ok_and(|now| is_ours(&now) && is_named(&now, &left));
        removed |= is_free && is_stale && remove(&left).is_ok();
    }
    removed
}
