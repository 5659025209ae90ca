//! Removes entries: one round trip looks at them, one removes them.

use haul_core::source::{REMOVE, changed_since_copied};
use haul_core::{Entry, ErrorKind, RelPath, Result};
use haul_ends::server_tree::ServerTree;

use super::conn::Conn;
use super::listing::have_entries;
use super::packet::{Attrs, SftpRequest};
use super::pipeline::Pipeline;
use super::reply::{Fault, unless_lost};
use super::tree::{Tree, is_dir};

/// Removes files, links and empty directories. One answer for each.
pub(super) fn remove(tree: &Tree, paths: &[RelPath]) -> Result<Vec<Result<()>>> {
    let found = tree.look(paths)?.found;
    let is_directory = |found: &Result<Option<Attrs>, Fault>| matches!(found, Ok(Some(now)) if is_dir(now));
    let directories: Vec<bool> = found.iter().map(is_directory).collect();
    paths
        .iter()
        .zip(&directories)
        .filter(|(_, is_directory)| **is_directory)
        .for_each(|(path, _)| tree.forget(path));
    tree.pool().on_one(|conn| {
        let mut pipeline = Pipeline::new(conn);
        for ((path, found), is_directory) in paths.iter().zip(&found).zip(&directories) {
            let remote = &tree.remote(path);
            match found {
                Ok(None) => {}
                _ if *is_directory => pipeline.ask(&SftpRequest::Rmdir { path: remote }),
                _ => pipeline.ask(&SftpRequest::Remove { path: remote }),
            }
        }
        let mut removed = Vec::with_capacity(paths.len());
        for (path, found) in paths.iter().zip(&found) {
            if matches!(found, Ok(None)) {
                removed.push(Ok(()));
                continue;
            }
            removed.push(removal(tree, &mut pipeline, path)?);
        }
        explain(tree, conn, paths, &directories, &mut removed)?;
        Ok(removed)
    })
}

/// Removes entries of a source that are still the given ones, as far as a server tells: kind, length and time in
/// seconds. One answer for each.
pub(super) fn remove_unchanged(tree: &Tree, entries: &[Entry]) -> Result<Vec<Result<()>>> {
    let paths: Vec<RelPath> = entries.iter().map(|entry| entry.path.clone()).collect();
    let is_same = |entry: &Entry, now: &Entry| {
        now.kind == entry.kind && !now.is_dir() && (now.len, now.mtime) == (entry.len, entry.mtime)
    };
    tree.pool().on_one(|conn| {
        let mut pipeline = Pipeline::new(conn);
        let found: Vec<Result<bool>> = tree
            .entries_at(&paths)?
            .into_iter()
            .zip(entries)
            .map(|(now, entry)| match now? {
                None => Ok(false),
                Some(now) if is_same(entry, &now) => Ok(true),
                Some(_) => Err(changed_since_copied().on(tree.remote(&entry.path))),
            })
            .collect();
        for (path, found) in paths.iter().zip(&found) {
            if *found == Ok(true) {
                pipeline.ask(&SftpRequest::Remove { path: &tree.remote(path) });
            }
        }
        let mut removed = Vec::with_capacity(paths.len());
        for (path, found) in paths.iter().zip(found) {
            removed.push(match found {
                Ok(true) => removal(tree, &mut pipeline, path)?,
                other => other.map(|_| ()),
            });
        }
        Ok(removed)
    })
}

/// The next answer to a request to remove an entry. A missing one counts as removed.
///
/// # Errors
/// If the connection is lost.
fn removal(tree: &Tree, pipeline: &mut Pipeline<'_>, path: &RelPath) -> Result<Result<()>> {
    Ok(match unless_lost(pipeline.next_reply().ok())? {
        Err(fault) if !fault.is_missing() => Err(tree.error(REMOVE, path, fault)),
        _ => Ok(()),
    })
}

/// Finds the directories that stay because they are not empty: SFTP has no status for that.
fn explain(
    tree: &Tree,
    conn: &Conn,
    paths: &[RelPath],
    directories: &[bool],
    removed: &mut [Result<()>],
) -> Result<()> {
    let fails = |removed: &Result<()>| {
        removed.as_ref().is_err_and(|error| error.kind() != ErrorKind::PermissionDenied)
    };
    let refused: Vec<usize> =
        (0..paths.len()).filter(|at| directories[*at] && fails(&removed[*at])).collect();
    let dirs: Vec<Vec<u8>> = refused.iter().map(|at| tree.remote(&paths[*at])).collect();
    let have = have_entries(conn, &dirs, |_| true)?;
    for at in refused.into_iter().zip(have).filter_map(|(at, has_entries)| has_entries.then_some(at)) {
        let cause = "the directory is not empty";
        removed[at] = Err(tree.fault(ErrorKind::NotEmpty, "remove", &paths[at], cause));
    }
    Ok(())
}
