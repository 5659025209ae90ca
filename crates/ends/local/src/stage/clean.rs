//! Staged files of interrupted runs: resumed, or removed.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use haul_core::staging::is_staging_name;
use haul_core::{Entry, FileTree};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::journal;
use super::lock::try_lock;
use super::names::{is_named, is_ours, journal_of, part_of};
use crate::path::at::{At, Dir};
use crate::path::stat;
use crate::read::page_cache;

/// The slices of `entry` that an interrupted run has completed. A staged file whose content cannot be synced is
/// removed, unless this is a `dry_run`.
pub(crate) fn resumable(at: &At, entry: &Entry, dry_run: bool) -> Vec<Range<u32>> {
    let (part, journal) = (part_of(at), journal_of(at));
    let Ok(staged) = part.open(OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()) else { return Vec::new() };
    let staged = File::from(staged);
    let found = journal::load(&journal, &entry.identity(), &staged).slices;
    if !found.is_empty()
        && !dry_run
        && try_lock(&staged).is_ok()
        && page_cache::sync_and_drop(&at.dir.ops, &staged).is_err()
    {
        let _ = journal.remove();
        let _ = part.remove();
        return Vec::new();
    }
    let mut tree = FileTree::new(entry.len);
    found.iter().for_each(|(index, value)| tree.set(*index, *value));
    tree.resumable()
}

/// Removes the staged file of a complete file, and its journal: a run was killed right after the rename, or a remote
/// end whose connections had died still wrote. They do no harm, so failing is no error. `false` if another process
/// holds the lock.
pub(crate) fn clean(at: &At) -> bool {
    let part = part_of(at);
    match part.open(OFlags::RDWR | OFlags::NONBLOCK, Mode::empty()) {
        Err(Errno::NOENT) => {}
        Ok(file) => {
            if try_lock(&file).is_err() {
                return false;
            }
            let stale = stat::statx_file(&file).is_ok_and(|now| is_ours(&now) && is_named(&now, &part));
            if !stale || part.remove().is_err() {
                return true;
            }
        }
        Err(_) => return true,
    }
    let _ = journal_of(at).remove();
    true
}

/// Removes the staged files and journals of killed runs from a directory that is to be removed. Whether there were any.
pub(crate) fn clean_directory(at: &At) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let Ok(opened) = at.open(flags, Mode::empty()) else { return false };
    let Ok(names) = rustix::fs::Dir::read_from(&opened) else { return false };
    let dir = Arc::new(Dir::new(opened, false, &at.dir.ops));
    let staged = names.flatten().filter(|entry| is_staging_name(entry.file_name().to_bytes()));
    let mut removed = false;
    for entry in staged {
        let left = At { dir: dir.clone(), name: entry.file_name().to_bytes().to_vec() };
        let Ok(file) = left.open(OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()) else { continue };
        // Another run may be writing it.
        let is_free = try_lock(&file).is_ok();
        let is_stale = stat::statx_file(&file).is_ok_and(|now| is_ours(&now) && is_named(&now, &left));
        removed |= is_free && is_stale && left.remove().is_ok();
    }
    removed
}
