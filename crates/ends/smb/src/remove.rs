//! Removes entries.

use std::collections::BTreeMap;

use haul_core::source::{REMOVE, changed_since_copied};
use haul_core::{Entry, RelPath, Result};
use haul_ends::server_tree::ServerTree;

use super::attrs::NORMAL;
use super::reply::Fault;
use super::step::{ChainStep, DELETE, OpenedKind, SET};
use super::tree::Tree;

/// Removes files and empty directories, those inside others first. One answer for each.
pub(super) fn remove(tree: &Tree, paths: &[RelPath]) -> Result<Vec<Result<()>>> {
    let mut by_depth: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, path) in paths.iter().enumerate() {
        by_depth.entry(path.components().count()).or_default().push(at);
    }
    let mut removed: Vec<Result<()>> = paths.iter().map(|_| Ok(())).collect();
    for numbers in by_depth.into_values().rev() {
        let done = tree.smb.all(&numbers, async |at: &usize| remove_one(tree, &paths[*at]).await)?;
        for (at, done) in numbers.into_iter().zip(done) {
            removed[at] = done.map_err(|fault| tree.error(REMOVE, &paths[at], fault));
        }
    }
    Ok(removed)
}

/// Removes one entry. A missing one counts as removed.
async fn remove_one(tree: &Tree, path: &RelPath) -> Result<(), Fault> {
    match remove_at(tree, &tree.remote(path)?).await {
        Err(fault) if fault.is_missing() => Ok(()),
        removed => removed,
    }
}

/// Removes the entry at a path on the share. If it is a read-only file, clears that attribute and tries again: as
/// on a file system of Unix, the mode of a file does not prevent its removal.
pub(super) async fn remove_at(tree: &Tree, remote: &str) -> Result<(), Fault> {
    // A directory that is still open in a listing stays until that is closed, and so does the one that holds it.
    tree.smb.server.closed().await;
    let chain = [ChainStep::open(remote, OpenedKind::Any, DELETE), ChainStep::remove(), ChainStep::close()];
    match tree.run(&chain).await?.all_ok() {
        Err(fault) if fault.is_denied() && clear_readonly(tree, remote).await? => {
            tree.run(&chain).await?.all_ok()
        }
        removed => removed,
    }
}

/// Takes the attribute of files that may not be changed from a file. Returns whether the file had it.
pub(super) async fn clear_readonly(tree: &Tree, remote: &str) -> Result<bool, Fault> {
    let Ok(there) = tree.stat_at(remote).await else { return Ok(false) };
    if !there.is_readonly() || !there.is_file() {
        return Ok(false);
    }
    let set = [
        ChainStep::open(remote, OpenedKind::File, SET),
        ChainStep::set_basic([0; 3], NORMAL),
        ChainStep::close(),
    ];
    Ok(tree.run(&set).await?.all_ok().is_ok())
}

/// Removes files of a source that are still the given ones: kind, length and time. One answer for each.
pub(super) fn remove_unchanged(tree: &Tree, entries: &[Entry]) -> Result<Vec<Result<()>>> {
    let paths: Vec<RelPath> = entries.iter().map(|entry| entry.path.clone()).collect();
    let is_same = |entry: &Entry, now: &Entry| {
        now.kind == entry.kind && !now.is_dir() && (now.len, now.mtime) == (entry.len, entry.mtime)
    };
    let found = tree.entries_at(&paths)?;
    let pairs: Vec<_> = entries.iter().zip(found).collect();
    tree.smb.all(&pairs, async |(entry, now)| match now {
        Ok(None) => Ok(()),
        Ok(Some(now)) if is_same(entry, now) => {
            remove_one(tree, &entry.path).await.map_err(|fault| tree.error(REMOVE, &entry.path, fault))
        }
        Ok(Some(_)) => Err(changed_since_copied().on(tree.shown(&entry.path))),
        Err(error) => Err(error.clone()),
    })
}
