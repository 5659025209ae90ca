//! The space that is left on a full disk, and the space that staged files of other runs hold there.

use std::sync::Arc;

use haul_core::{Batch, Error, ErrorKind, Outcome, RelPath, Result, WriteDone};
use haul_ends::full::{FullDisk, StagedBytes, is_part};
use rustix::fs::{Mode, OFlags};

use super::state::LocalSink;
use crate::path::at::Dir;
use crate::path::root::Root;
use crate::path::stat;
use crate::stage::lock::try_lock;
use crate::stage::names::is_ours;

/// Names of a directory that are looked at.
const MOST_NAMES: usize = 100_000;

/// Adds the facts of the disk to an error of a full disk.
pub(super) fn explain(root: &Root, path: &RelPath, error: Error) -> Error {
    if error.kind() != ErrorKind::NoSpace {
        return error;
    }
    let (dir, disk) = look(root, path);
    disk.explain(error, &dir)
}

impl LocalSink {
    /// The same, for the outcomes of a batch: the first one explains it.
    pub(super) fn explaining(&self, batch: &Arc<Batch>, done: WriteDone) -> WriteDone {
        let (committer, batch) = (self.committer.clone(), batch.clone());
        Box::new(move |mut outcomes: Vec<Result<Outcome>>| {
            let is_full = |outcome: &Result<Outcome>| {
                outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::NoSpace)
            };
            if let Some(first) = outcomes.iter().position(is_full)
                && let Some((entry, _)) = batch.get(first)
            {
                let (dir, disk) = look(&committer.tree.root, &entry.path);
                for error in outcomes.iter_mut().filter_map(|outcome| outcome.as_mut().err()) {
                    *error = disk.explain(error.clone(), &dir);
                }
            }
            done(outcomes);
        })
    }
}

/// The disk of the entry at `path`, and the directory with staged files of ended runs: the first one of that of the
/// entry, the root, and that above the root.
fn look(root: &Root, path: &RelPath) -> (Vec<u8>, FullDisk) {
    let everything = RelPath::root();
    let inside = |path: &RelPath| Some((root.dir(path, false).ok()?, root.shown(path)));
    // Of a root that is no directory.
    let beside = || Some((root.at(&everything).ok()?.dir, above(&root.shown(&everything))));
    let in_root = inside(&everything);
    let first = path.parent().as_ref().and_then(inside).or_else(|| in_root.clone()).or_else(beside);
    let Some((first, shown)) = first else { return (Vec::new(), FullDisk::default()) };
    root.ops.some(4);
    let Ok(there) = rustix::fs::fstatvfs(&first) else { return (Vec::new(), FullDisk::default()) };
    // File systems that allocate inodes on demand report that they have none.
    let has_no_inodes = there.f_files > 0 && there.f_favail == 0;
    let free = Some(there.f_bavail.saturating_mul(there.f_frsize));
    let mut found = (shown, staged(&first, "."));
    let running = found.1.running;
    if let (0, Some((dir, shown))) = (found.1.ended, in_root) {
        found = (shown.clone(), staged(&dir, "."));
        if found.1.ended == 0 && !root.is_confined() {
            found = (above(&shown), staged(&dir, ".."));
        }
    }
    found.1.running = found.1.running.max(running);
    (found.0, FullDisk { free, has_no_inodes, staged: found.1 })
}

/// The directory above a path that is shown.
fn above(shown: &[u8]) -> Vec<u8> {
    match shown.iter().rposition(|byte| *byte == b'/') {
        Some(0) => b"/".to_vec(),
        Some(slash) => shown[..slash].to_vec(),
        None => Vec::new(),
    }
}

/// The bytes that staged files hold in the directory `name` of `dir`.
fn staged(dir: &Arc<Dir>, name: &str) -> StagedBytes {
    let mut staged = StagedBytes::default();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(opened) = rustix::fs::openat(&**dir, name, flags, Mode::empty()) else { return staged };
    let Ok(names) = opened.try_clone().and_then(|opened| Ok(rustix::fs::Dir::new(opened)?)) else {
        return staged;
    };
    for name in names.take(MOST_NAMES).flatten().filter(|name| is_part(name.file_name().to_bytes())) {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::openat(&opened, name.file_name(), flags, Mode::empty()) else { continue };
        let Ok(now) = stat::statx_file(&file) else { continue };
        if is_ours(&now) {
            // A run locks its staged files.
            let of = if try_lock(&file).is_ok() { &mut staged.ended } else { &mut staged.running };
            *of = of.saturating_add(now.stx_blocks.saturating_mul(512));
        }
    }
    staged
}
