//! Walks a tree on the share: many listings side by side.

use haul_core::source::ScanVisit;
use haul_core::staging::is_staging_name;
use haul_core::{Error, ErrorKind, Failure, Result, ScanBatch, ScanOptions};
use haul_ends::walk::Lister;

use super::entries::entry;
use super::listing::DirectoryListing;
use super::named::DirectoryEntry;
use super::reply::Fault;
use super::tree::Tree;

type Walk<'a> = haul_ends::walk::Walk<'a, Tree, ()>;
type Directory = haul_ends::walk::Directory<()>;

/// Walks below the root of `tree`.
pub(super) fn walk(tree: &Tree, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
    if options.one_file_system {
        let cause = "SMB does not tell one file system from another";
        let error = Error::new(ErrorKind::Usage, tree.side, "obey --one-file-system", cause);
        return Err(error.with_hint("omit the option, and leave entries out with --exclude"));
    }
    if options.owner_names {
        tree.smb.server.note("haul asks a share for no owners: --owner-by-name has no effect on this source");
    }
    Walk::run(
        tree,
        options,
        visit,
        &Lister { threads: 2, side_by_side: 64, place: &|_| Ok(Ok(())), list: list_all },
    )
}

/// Lists directories side by side, and takes some names of each in turn.
fn list_all(walk: &Walk<'_>, dirs: &[Directory], batch: &mut ScanBatch) -> Result<()> {
    let mut open = Vec::with_capacity(dirs.len());
    for dir in dirs {
        open.push((dir, DirectoryListing::new(walk.tree, &dir.path), walk.forecast.list(dir.path.depth())));
    }
    while !open.is_empty() && !walk.is_stopped() {
        let next = walk.tree.smb.all(open, async |(dir, mut listing, count)| {
            let names = listing.next().await;
            (dir, listing, count, names)
        })?;
        open = Vec::new();
        for (dir, listing, mut count, names) in next {
            match names {
                Ok(Some(names)) => {
                    let before = batch.entries.len();
                    take(walk, dir, names, batch)?;
                    (before..batch.entries.len()).for_each(|_| count.name(Some(true)));
                    open.push((dir, listing, count));
                }
                Ok(None) => {}
                Err(Fault::Failed(error)) if error.kind() == ErrorKind::Unreachable => return Err(error),
                // A directory may have been removed since it was found.
                Err(fault) if fault.is_missing() && !dir.path.is_root() => {}
                Err(fault) => {
                    let error = walk.tree.error("list the directory", &dir.path, fault);
                    batch.errors.push(Failure { path: dir.path.clone(), error });
                }
            }
            walk.hand_over(batch);
        }
    }
    open.iter_mut().for_each(|(_, listing, _)| listing.close());
    Ok(())
}

/// Takes the names of a part of a listing.
fn take(
    walk: &Walk<'_>,
    directory: &Directory,
    names: Vec<DirectoryEntry>,
    batch: &mut ScanBatch,
) -> Result<()> {
    let (parent, mut entries) = (&directory.path, Vec::with_capacity(names.len()));
    let mut points = Vec::new();
    for named in names {
        let name = walk.tree.name_from(&named.name);
        if is_staging_name(&name) {
            batch.excluded += 1;
            continue;
        }
        let is_text = named.is_text.then_some(()).ok_or("its name is no text");
        let path = match is_text
            .map_err(str::to_owned)
            .and_then(|()| parent.join(&name).map_err(|bad| bad.to_string()))
        {
            Ok(path) => path,
            Err(cause) => {
                let error = walk.tree.fault(ErrorKind::Unsupported, "take an entry of", parent, &cause);
                batch.errors.push(Failure { path: parent.clone(), error });
                continue;
            }
        };
        if named.attrs.is_reparse_point() {
            points.push((path, named.attrs));
        } else {
            entries.push(entry(walk.tree, &path, &named.attrs));
        }
    }
    for (path, entry) in walk.tree.reparse_entries(points)? {
        match entry {
            Ok(entry) => entries.push(entry),
            Err(error) => walk.failed(directory, path, error, batch),
        }
    }
    for (path, entry) in walk.tree.with_extras(entries)? {
        match entry {
            Ok(entry) => walk.found(directory, entry, || Ok(()), batch),
            Err(error) => walk.failed(directory, path, error, batch),
        }
    }
    Ok(())
}
