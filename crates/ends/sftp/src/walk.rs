//! Walks a tree at the server: many listings side by side, with many requests in flight.

use haul_core::sync::Mutex;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::sync::Arc;

use haul_core::source::{DANGLING, OWN_ANCESTOR, ScanVisit};
use haul_core::{
    Entry, EntryKind, Error, ErrorKind, Failure, Links, RelPath, Result, Retry, ScanBatch, ScanOptions,
    Timestamp, filter,
};
use haul_threads::together;

use super::conn::Conn;
use super::lineage::Lineage;
use super::listing::{SIDE_BY_SIDE, list};
use super::packet::{Attrs, Names, Request};
use super::pipeline::Pipeline;
use super::reply::{Fault, Reply, lost, unless_lost};
use super::tree::{self, KIND, Tree};
use haul_core::staging::is_staging_name;
use haul_ends::frontier::Frontier;

/// Entries handed over at a time.
const BATCH: usize = 512;
/// Threads of one walk.
const THREADS: usize = 4;
/// Names to remember while a directory is listed. A directory with more names cannot be listed again after its
/// connection was lost.
const REMEMBERED: usize = 1 << 20;

struct Walk<'a> {
    tree: &'a Tree,
    options: &'a ScanOptions,
    visit: ScanVisit<'a>,
    folders: Frontier<Folder>,
}

/// A directory that is to be listed.
struct Folder {
    path: RelPath,
    /// Where it is, if links are followed.
    lineage: Option<Arc<Lineage>>,
}

/// An entry, and whether it was found through a link.
struct Found {
    entry: Entry,
    followed: bool,
}

/// Walks below the root of `tree`.
pub(super) fn walk(tree: &Tree, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
    if options.one_file_system {
        let cause = "SFTP does not tell one file system from another";
        let error = Error::new(ErrorKind::Usage, tree.side, "obey --one-file-system", cause);
        return Err(error.with_hint("leave it out, and what is to stay out with --exclude"));
    }
    if options.owner_names {
        tree.pool().note("SFTP tells owners by number only: --owner-by-name has no effect on this source");
    }
    let walk = Walk { tree, options, visit, folders: Frontier::default() };
    let first = walk.starts()?;
    if (walk.visit)(first).is_break() {
        return Ok(());
    }
    together(THREADS, "walk", || walk.run())?;
    walk.folders.end()
}

impl Walk<'_> {
    /// The starts and the directories above them.
    fn starts(&self) -> Result<ScanBatch> {
        let starts =
            if self.options.starts.is_empty() { vec![RelPath::root()] } else { self.options.starts.clone() };
        let above = self.options.above_starts();
        let mut batch = ScanBatch::default();
        batch.entries.extend(entries_at(self.tree, &above)?.into_iter().filter_map(|found| found.ok()?));
        for (path, found) in starts.iter().zip(entries_at(self.tree, &starts)?) {
            match found {
                Ok(Some(entry)) if !start_excluded(self.options, &entry) => {
                    if entry.is_dir() && self.options.lists(path) {
                        match self.lineage_of_start(path)? {
                            Ok(lineage) => self.folders.add([Folder { path: path.clone(), lineage }]),
                            Err(error) => {
                                batch.errors.push(Failure { path: path.clone(), error });
                                continue;
                            }
                        }
                    }
                    batch.entries.push(entry);
                }
                Ok(Some(_)) => batch.leaves_out(self.options, path),
                Ok(None) => {
                    let error =
                        self.tree.fault(ErrorKind::NotFound, "look at", path, "No such file or directory");
                    batch.errors.push(Failure { path: path.clone(), error });
                }
                Err(error) => batch.errors.push(Failure { path: path.clone(), error }),
            }
        }
        Ok(batch)
    }

    /// Where a start is, if links are followed: any directory above it may be a link.
    fn lineage_of_start(&self, start: &RelPath) -> Result<Result<Option<Arc<Lineage>>>> {
        if !self.tree.links.are_followed() {
            return Ok(Ok(None));
        }
        let mut dirs = vec![start.clone()];
        while let Some(parent) = dirs.last().and_then(RelPath::parent) {
            dirs.push(parent);
        }
        let reals = self.tree.pool().on_one(|conn| real_paths(self.tree, conn, &dirs))?;
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
            let Some(next) = next else { return Ok(Err(own_ancestor(self.tree, dir))) };
            lineage = Some(next);
        }
        Ok(Ok(lineage))
    }

    /// Where the directories of `found` are, which lie in one directory at `above`. One result for each directory.
    fn lineages(
        &self,
        conn: &Conn,
        above: Option<&Arc<Lineage>>,
        found: &[&Found],
    ) -> Result<Vec<Result<Option<Arc<Lineage>>>>> {
        let Some(above) = above else { return Ok(found.iter().map(|_| Ok(None)).collect()) };
        let linked = found.iter().filter(|found| found.followed).map(|found| found.entry.path.clone());
        let mut reals = real_paths(self.tree, conn, &linked.collect::<Vec<_>>())?.into_iter();
        let lineage = |found: &&Found| {
            let path = &found.entry.path;
            let own_ancestor = || own_ancestor(self.tree, path);
            if !found.followed {
                return if above.is_own_ancestor(path) { Err(own_ancestor()) } else { Ok(Arc::clone(above)) };
            }
            let real = reals.next().unwrap_or_else(|| Ok(Vec::new()))?;
            if real == above.real_path(path) {
                let cause =
                    "the server does not tell where the symbolic link leads, so it could lead in a circle";
                return Err(self.tree.fault(ErrorKind::Unsupported, "follow the link", path, cause));
            }
            above.follow(path, real).ok_or_else(own_ancestor)
        };
        Ok(found.iter().map(lineage).map(|lineage| lineage.map(Some)).collect())
    }

    fn run(&self) {
        let mut batch = ScanBatch::default();
        // A fair share, so that the other threads have work too.
        let share = |len: usize| (len / THREADS).min(SIDE_BY_SIDE);
        while let Some(dirs) = self.folders.take(share, || self.hand_over(&mut batch, 0)) {
            self.folders.done(self.list(&dirs, &mut batch));
            self.hand_over(&mut batch, BATCH);
        }
        self.hand_over(&mut batch, 0);
    }

    fn hand_over(&self, batch: &mut ScanBatch, at_least: usize) {
        let count = batch.entries.len() + batch.errors.len();
        if count < at_least || count == 0 && batch.excluded == 0 || self.folders.is_stopped() {
            return;
        }
        if let ControlFlow::Break(()) = (self.visit)(std::mem::take(batch)) {
            self.folders.stop();
        }
    }

    /// Lists directories. Names that were reported before a connection was lost are not reported again.
    fn list(&self, dirs: &[Folder], batch: &mut ScanBatch) -> Result<()> {
        let hasher = RandomState::new();
        let reported: Mutex<Vec<HashSet<u64>>> = Mutex::new(vec![HashSet::new(); dirs.len()]);
        let batch = Mutex::new(batch);
        let paths: Vec<Vec<u8>> = dirs.iter().map(|dir| self.tree.remote(&dir.path)).collect();
        let failed = self.tree.pool().on_one(|conn| {
            let mut batch = batch.lock();
            let mut reported = reported.lock();
            if reported.iter().any(|reported| reported.len() >= REMEMBERED) {
                let why = "the connection was lost while a folder of a million names was listed";
                return Err(lost(&self.tree.pool().name(), why).with_retry(Retry::Never));
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
                if let Err(error) = self.names(conn, &dirs[at], names, &mut batch) {
                    // These names were not reported, so report them when the directory is listed again.
                    reported[at].retain(|hash| !now.contains(hash));
                    return Err(error);
                }
                self.hand_over(&mut batch, BATCH);
                Ok(!self.folders.is_stopped())
            })
        })?;
        let batch = batch.into_inner();
        for (dir, fault) in dirs.iter().map(|dir| &dir.path).zip(failed) {
            // A directory may have been removed since it was found.
            if let Some(fault) = fault.filter(|fault| !fault.is_missing() || dir.is_root()) {
                let error = self.tree.error("list the folder", dir, fault);
                batch.errors.push(Failure { path: dir.clone(), error });
            }
        }
        Ok(())
    }

    /// Takes the names of a part of a listing.
    fn names(&self, conn: &Conn, folder: &Folder, names: Names, batch: &mut ScanBatch) -> Result<()> {
        let parent = &folder.path;
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
                    let error =
                        self.tree.fault(ErrorKind::Unsupported, "take the path below", parent, &cause);
                    batch.errors.push(Failure { path: parent.clone(), error });
                }
            }
        }
        let options = self.options;
        let completed = complete(self.tree, conn, found)?;
        let is_left_out = |entry: &Entry| {
            options.is_wrong_size_or_age(entry)
                || filter::excludes(&options.rules, &entry.path, entry.is_dir())
        };
        let is_listed = |entry: &Entry| entry.is_dir() && options.lists(&entry.path);
        let dirs = completed.iter().filter_map(|(_, found)| found.as_ref().ok()?.as_ref());
        let dirs: Vec<&Found> =
            dirs.filter(|found| is_listed(&found.entry) && !is_left_out(&found.entry)).collect();
        let mut lineages = self.lineages(conn, folder.lineage.as_ref(), &dirs)?.into_iter();
        for (path, found) in completed {
            match found {
                Ok(Some(Found { entry, .. })) => {
                    if is_left_out(&entry) {
                        batch.leaves_out(options, &path);
                        continue;
                    }
                    if is_listed(&entry) {
                        match lineages.next().unwrap_or(Ok(None)) {
                            Ok(lineage) => self.folders.add([Folder { path, lineage }]),
                            Err(error) => {
                                batch.errors.push(Failure { path, error });
                                continue;
                            }
                        }
                    }
                    batch.entries.push(entry);
                }
                // It was removed since it was listed.
                Ok(None) => {}
                Err(_) if filter::excludes(&options.rules, &path, false) => batch.leaves_out(options, &path),
                Err(error) => batch.errors.push(Failure { path, error }),
            }
        }
        Ok(())
    }
}

fn own_ancestor(tree: &Tree, path: &RelPath) -> Error {
    tree.fault(ErrorKind::Io, "follow the link", path, OWN_ANCESTOR)
}

/// The paths of directories at the server without links: one result for each, in order.
fn real_paths(tree: &Tree, conn: &Conn, paths: &[RelPath]) -> Result<Vec<Result<Vec<u8>>>> {
    let mut pipeline = Pipeline::new(conn);
    paths.iter().for_each(|path| pipeline.ask(&Request::Realpath { path: &tree.remote(path) }));
    let mut reals = Vec::with_capacity(paths.len());
    for path in paths {
        let real = unless_lost(pipeline.next_reply().name())?;
        reals.push(real.map_err(|fault| tree.error("follow the link", path, fault)));
    }
    Ok(reals)
}

fn start_excluded(options: &ScanOptions, entry: &Entry) -> bool {
    !entry.path.is_root() && filter::excludes(&options.rules, &entry.path, entry.is_dir())
}

/// The entries at `paths` as they are now.
pub(super) fn entries_at(tree: &Tree, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
    tree.pool().on_one(|conn| {
        let looked = tree.look(paths)?;
        let mut there = Vec::new();
        for (path, found) in paths.iter().zip(&looked.found) {
            if let Ok(Some(attrs)) = found {
                there.push((path.clone(), *attrs));
            }
        }
        let mut entries = complete(tree, conn, there)?.into_iter();
        let mut all = Vec::with_capacity(paths.len());
        for (path, found) in paths.iter().zip(looked.found) {
            all.push(match found {
                Ok(Some(_)) => entries
                    .next()
                    .map_or(Ok(None), |(_, found)| found.map(|found| found.map(|found| found.entry))),
                Ok(None) => Ok(None),
                Err(fault) => Err(tree.error("look at", path, fault)),
            });
        }
        Ok(all)
    })
}

/// Completes the entries of a listing: targets of links, and attributes that the server does not list.
fn complete(
    tree: &Tree,
    conn: &Conn,
    found: Vec<(RelPath, Attrs)>,
) -> Result<Vec<(RelPath, Result<Option<Found>>)>> {
    let lacks = |attrs: &Attrs| attrs.mode.is_none() || attrs.times.is_none() || attrs.size.is_none();
    let mut pipeline = Pipeline::new(conn);
    for (path, attrs) in &found {
        let path = &tree.remote(path)[..];
        if lacks(attrs) {
            pipeline.ask(&Request::Lstat { path });
        }
        // An entry without attributes may be a link, so ask for its target too.
        if lacks(attrs) || is_link(attrs) {
            pipeline.ask(&match tree.links {
                Links::Kept => Request::Readlink { path },
                Links::Followed => Request::Stat { path },
            });
        }
    }
    let mut entries = Vec::with_capacity(found.len());
    for (path, attrs) in found {
        let looked = if lacks(&attrs) { pipeline.next_reply().attrs() } else { Ok(attrs) };
        let reply = (lacks(&attrs) || is_link(&attrs)).then(|| pipeline.next_reply());
        let (mut target, mut led_to) = (None, None);
        match tree.links {
            Links::Kept => target = reply.map(Reply::name),
            Links::Followed => led_to = reply.map(Reply::attrs),
        }
        let entry = match (looked, target, led_to) {
            (Err(Fault::Lost(error)), ..)
            | (_, Some(Err(Fault::Lost(error))), _)
            | (.., Some(Err(Fault::Lost(error)))) => return Err(error),
            (Err(fault), ..) if fault.is_missing() => Ok(None),
            (Err(fault), ..) => Err(tree.error("look at", &path, fault)),
            (Ok(attrs), _, Some(led_to)) if is_link(&attrs) => follow(tree, &path, led_to),
            (Ok(attrs), target, _) => entry(tree, &path, &attrs, target)
                .map(|entry| entry.map(|entry| Found { entry, followed: false })),
        };
        entries.push((path, entry));
    }
    Ok(entries)
}

fn is_link(attrs: &Attrs) -> bool {
    attrs.mode.is_some_and(|mode| mode & KIND == tree::LINK)
}

/// The entry that a link leads to.
fn follow(tree: &Tree, path: &RelPath, led_to: Result<Attrs, Fault>) -> Result<Option<Found>> {
    match led_to {
        Err(fault) if fault.is_missing() => Err(tree.fault(ErrorKind::NotFound, "look at", path, DANGLING)),
        Err(fault) => Err(tree.error("follow the link", path, fault)),
        Ok(attrs) => {
            entry(tree, path, &attrs, None).map(|entry| entry.map(|entry| Found { entry, followed: true }))
        }
    }
}

fn entry(
    tree: &Tree,
    path: &RelPath,
    attrs: &Attrs,
    target: Option<Result<Vec<u8>, Fault>>,
) -> Result<Option<Entry>> {
    let cannot = |cause: &str| Err(tree.fault(ErrorKind::Unsupported, "copy", path, cause));
    let (Some(mode), Some((accessed, modified))) = (attrs.mode, attrs.times) else {
        return cannot("the server does not tell what it is");
    };
    let kind = match mode & KIND {
        tree::FILE => EntryKind::File,
        tree::DIR => EntryKind::Dir,
        tree::LINK => match target {
            Some(Ok(target)) => EntryKind::Symlink(target),
            Some(Err(fault)) if fault.is_missing() => return Ok(None),
            Some(Err(fault)) => return Err(tree.error("read the link", path, fault)),
            None => return cannot("the server does not tell where the link points"),
        },
        0o010_000 => EntryKind::Fifo,
        0o140_000 => EntryKind::Socket,
        0o020_000 | 0o060_000 => return cannot("SFTP does not tell the number of a device"),
        _ => return cannot("the server does not tell what it is"),
    };
    let (uid, gid) = attrs.owner.unwrap_or_default();
    let len = if kind == EntryKind::File { attrs.size.unwrap_or_default() } else { 0 };
    let time = |sec: u32| Timestamp { sec: sec.into(), nsec: 0 };
    // SFTP reports neither inodes nor holes.
    Ok(Some(Entry {
        mtime: time(modified),
        atime: time(accessed),
        mode: mode & 0o7777,
        uid,
        gid,
        ..Entry::new(path.clone(), kind, len)
    }))
}
