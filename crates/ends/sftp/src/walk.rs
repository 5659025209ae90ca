//! Walks a tree at the server: many listings side by side, with many requests in flight.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use haul_core::source::{OWN_ANCESTOR, ScanVisit};
use haul_core::staging::is_staging_name;
use haul_core::sync::Mutex;
use haul_core::{Error, ErrorKind, Failure, RelPath, Result, Retry, ScanBatch, ScanOptions};
use haul_ends::walk::Lister;

use super::conn::Conn;
use super::entries::{FollowedEntry, complete};
use super::lineage::Lineage;
use super::listing::{SIDE_BY_SIDE, list};
use super::packet::{Attrs, DirNames, SftpRequest};
use super::pipeline::Pipeline;
use super::reply::{lost, unless_lost};
use super::tree::Tree;

/// Threads of one walk.
const THREADS: usize = 4;
/// Names to remember while a directory is listed. A directory with more names cannot be listed again after its
/// connection was lost.
const REMEMBERED: usize = 1 << 20;

/// Where a directory is, if links are followed.
type WalkLineage = Option<Arc<Lineage>>;
type Walk<'a> = haul_ends::walk::Walk<'a, Tree, WalkLineage>;
type Directory = haul_ends::walk::Directory<WalkLineage>;

/// Walks below the root of `tree`.
pub(super) fn walk(tree: &Tree, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
    if options.one_file_system {
        let cause = "SFTP does not tell one file system from another";
        let error = Error::new(ErrorKind::Usage, tree.side, "obey --one-file-system", cause);
        return Err(error.with_hint("omit the option, and leave entries out with --exclude"));
    }
    if options.owner_names {
        tree.pool().note("SFTP tells owners by number only: --owner-by-name has no effect on this source");
    }
    let place = |path: &RelPath| place_of_start(tree, path);
    Walk::run(
        tree,
        options,
        visit,
        &Lister { threads: THREADS, side_by_side: SIDE_BY_SIDE, place: &place, list: list_all },
    )
}

/// Where a start is, if links are followed: any directory above it may be a link.
fn place_of_start(tree: &Tree, start: &RelPath) -> Result<Result<WalkLineage>> {
    if !tree.links.are_followed() {
        return Ok(Ok(None));
    }
    let mut dirs = vec![start.clone()];
    while let Some(parent) = dirs.last().and_then(RelPath::parent) {
        dirs.push(parent);
    }
    let reals = tree.pool().on_one(|conn| real_paths(tree, conn, &dirs))?;
    let mut lineage: Option<Arc<Lineage>> = None;
    for (dir, real) in dirs.iter().zip(reals).rev() {
        let real = match real {
            Ok(real) => real,
            Err(error) => return Ok(Err(error)),
        };
        let next = match &lineage {
            None => Some(Lineage::root(real)),
            Some(above) if above.real_path(dir) != real => above.follow(dir, real),
            Some(above) => (!above.is_own_ancestor(dir)).then(|| Arc::clone(above)),
        };
        let Some(next) = next else { return Ok(Err(own_ancestor(tree, dir))) };
        lineage = Some(next);
    }
    Ok(Ok(lineage))
}

/// Where the directories of `found` are, which lie in one directory at `above`. One result for each directory.
fn places(
    tree: &Tree,
    conn: &Conn,
    above: &WalkLineage,
    found: &[&FollowedEntry],
) -> Result<Vec<Result<WalkLineage>>> {
    let Some(above) = above else { return Ok(found.iter().map(|_| Ok(None)).collect()) };
    let linked = found.iter().filter(|found| found.followed).map(|found| found.entry.path.clone());
    let mut reals = real_paths(tree, conn, &linked.collect::<Vec<_>>())?.into_iter();
    let lineage = |found: &&FollowedEntry| {
        let path = &found.entry.path;
        let own_ancestor = || own_ancestor(tree, path);
        if !found.followed {
            return if above.is_own_ancestor(path) { Err(own_ancestor()) } else { Ok(Arc::clone(above)) };
        }
        let real = reals.next().unwrap_or_else(|| Ok(Vec::new()))?;
        if real == above.real_path(path) {
            let cause =
                "the server does not tell where the symbolic link leads, so it could lead in a circle";
            return Err(tree.fault(ErrorKind::Unsupported, "follow the link", path, cause));
        }
        above.follow(path, real).ok_or_else(own_ancestor)
    };
    Ok(found.iter().map(lineage).map(|lineage| lineage.map(Some)).collect())
}

/// Lists directories. Names that were reported before a connection was lost are not reported again.
fn list_all(walk: &Walk<'_>, dirs: &[Directory], batch: &mut ScanBatch) -> Result<()> {
    let hasher = RandomState::new();
    let reported: Mutex<Vec<HashSet<u64>>> = Mutex::new(vec![HashSet::new(); dirs.len()]);
    let batch = Mutex::new(batch);
    let listings =
        Mutex::new(dirs.iter().map(|dir| walk.forecast.list(dir.path.depth())).collect::<Vec<_>>());
    let paths: Vec<Vec<u8>> = dirs.iter().map(|dir| walk.tree.remote(&dir.path)).collect();
    let failed = walk.tree.pool().on_one(|conn| {
        let mut batch = batch.lock();
        let (mut reported, mut listings) = (reported.lock(), listings.lock());
        if reported.iter().any(|reported| reported.len() >= REMEMBERED) {
            let why = "the connection was lost while a directory of a million names was listed";
            return Err(lost(&walk.tree.pool().name(), why).with_retry(Retry::Never));
        }
        list(conn, &paths, &mut |at, mut names| {
            let mut now = HashSet::new();
            names.retain(|(name, _)| {
                let hash = hasher.hash_one(name);
                let is_new = reported[at].len() >= REMEMBERED || reported[at].insert(hash);
                if is_new {
                    now.insert(hash);
                }
                is_new
            });
            let before = batch.entries.len();
            if let Err(error) = take(walk, conn, &dirs[at], names, &mut batch) {
                // These names were not reported, so report them when the directory is listed again.
                reported[at].retain(|hash| !now.contains(hash));
                return Err(error);
            }
            (before..batch.entries.len()).for_each(|_| listings[at].name(Some(true)));
            walk.hand_over(&mut batch);
            Ok(!walk.is_stopped())
        })
    })?;
    let batch = batch.into_inner();
    for (dir, fault) in dirs.iter().map(|dir| &dir.path).zip(failed) {
        // A directory may have been removed since it was found.
        if let Some(fault) = fault.filter(|fault| !fault.is_missing() || dir.is_root()) {
            let error = walk.tree.error("list the directory", dir, fault);
            batch.errors.push(Failure { path: dir.clone(), error });
        }
    }
    Ok(())
}

/// Takes the names of a part of a listing.
fn take(
    walk: &Walk<'_>,
    conn: &Conn,
    directory: &Directory,
    names: DirNames,
    batch: &mut ScanBatch,
) -> Result<()> {
    let parent = &directory.path;
    let mut found: Vec<(RelPath, Attrs)> = Vec::with_capacity(names.len());
    for (name, attrs) in names {
        if matches!(&name[..], b"." | b"..") {
            continue;
        }
        if is_staging_name(&name) {
            batch.excluded += 1;
            continue;
        }
        match parent.join(&name) {
            Ok(path) => found.push((path, attrs)),
            Err(bad) => {
                let cause = bad.to_string();
                let error = walk.tree.fault(ErrorKind::Unsupported, "take the path below", parent, &cause);
                batch.errors.push(Failure { path: parent.clone(), error });
            }
        }
    }
    let completed = complete(walk.tree, conn, found)?;
    let dirs = completed.iter().filter_map(|(_, found)| found.as_ref().ok()?.as_ref());
    let dirs: Vec<&FollowedEntry> = dirs.filter(|found| walk.lists(directory, &found.entry)).collect();
    let mut places = places(walk.tree, conn, &directory.place, &dirs)?.into_iter();
    for (path, found) in completed {
        match found {
            Ok(Some(FollowedEntry { entry, .. })) => {
                walk.found(directory, entry, || places.next().unwrap_or(Ok(None)), batch);
            }
            // It was removed since it was listed.
            Ok(None) => {}
            Err(error) => walk.failed(directory, path, error, batch),
        }
    }
    Ok(())
}

fn own_ancestor(tree: &Tree, path: &RelPath) -> Error {
    tree.fault(ErrorKind::Io, "follow the link", path, OWN_ANCESTOR)
}

/// The paths of directories at the server without links: one result for each, in order.
fn real_paths(tree: &Tree, conn: &Conn, paths: &[RelPath]) -> Result<Vec<Result<Vec<u8>>>> {
    let mut pipeline = Pipeline::new(conn);
    paths.iter().for_each(|path| pipeline.ask(&SftpRequest::Realpath { path: &tree.remote(path) }));
    let mut reals = Vec::with_capacity(paths.len());
    for path in paths {
        let real = unless_lost(pipeline.next_reply().name())?;
        reals.push(real.map_err(|fault| tree.error("follow the link", path, fault)));
    }
    Ok(reals)
}
