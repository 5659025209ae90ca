//! Walks a tree at the server: many listings side by side, with many requests in flight.

use haul_core::sync::Mutex;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::sync::Arc;

use haul_core::filter::{DirRules, Filter};
use haul_core::source::{OWN_ANCESTOR, ScanVisit};
use haul_core::{Entry, Error, ErrorKind, Failure, RelPath, Result, Retry, ScanBatch, ScanOptions};
use haul_threads::together;

use super::conn::Conn;
use super::entries::{Found, complete, entries_at};
use super::lineage::Lineage;
use super::listing::{SIDE_BY_SIDE, list};
use super::packet::{Attrs, Names, Request};
use super::pipeline::Pipeline;
use super::reply::{lost, unless_lost};
use super::rules;
use super::tree::Tree;
use haul_core::staging::is_staging_name;
use haul_ends::forecast::Forecast;
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
    filter: Filter<'a>,
    /// The filter rules of files above the root.
    top: DirRules,
    visit: ScanVisit<'a>,
    folders: Frontier<Folder>,
    forecast: Forecast,
}

/// A directory that is to be listed.
struct Folder {
    path: RelPath,
    /// Where it is, if links are followed.
    lineage: Option<Arc<Lineage>>,
    /// The filter rules of its parent, then its own.
    rules: DirRules,
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
    let (filter, top) = Filter::open(&options.rules, |names| rules::above(tree, names))?;
    let (folders, forecast) = (Frontier::default(), Forecast::default());
    let walk = Walk { tree, options, filter, top, visit, folders, forecast };
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
            let rules = match self.rules_above(path) {
                Ok(rules) => rules,
                Err(error) if error.kind() == ErrorKind::Usage => return Err(error),
                Err(error) => {
                    batch.errors.push(Failure { path: path.clone(), error });
                    continue;
                }
            };
            match found {
                Ok(Some(entry)) if !self.excludes_start(&rules, &entry, &mut batch) => {
                    if entry.is_dir() && self.options.lists(path) {
                        match self.lineage_of_start(path)? {
                            Ok(lineage) => self.put(Folder { path: path.clone(), lineage, rules }),
                            Err(error) => {
                                batch.errors.push(Failure { path: path.clone(), error });
                                continue;
                            }
                        }
                    }
                    batch.entries.push(entry);
                }
                Ok(Some(_)) => {}
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

    fn put(&self, folder: Folder) {
        self.forecast.found_folder(folder.path.depth());
        self.folders.add([folder]);
    }

    /// The filter rules of the directory that a start is in.
    fn rules_above(&self, start: &RelPath) -> Result<DirRules> {
        let parent = start.parent();
        parent.map_or(Ok(self.top.clone()), |parent| {
            rules::enter_all(self.tree, &self.filter, &self.top, &parent)
        })
    }

    fn excludes_start(&self, rules: &DirRules, entry: &Entry, batch: &mut ScanBatch) -> bool {
        let (options, is_filtered) = (self.options, !entry.path.is_root() && !self.options.enters_starts);
        is_filtered && batch.excludes_path(options, &self.filter, rules, &entry.path, entry.is_dir())
    }

    /// Gives directories their own filter rules. Drops those whose file of rules cannot be read.
    ///
    /// # Errors
    /// `Usage` if it is no file of rules; the error of a lost connection.
    fn enter(&self, dirs: Vec<Folder>, batch: &mut ScanBatch) -> Result<Vec<Folder>> {
        if !self.options.rules.are_in_tree() {
            return Ok(dirs);
        }
        let asked: Vec<_> = dirs.iter().map(|dir| (&dir.rules, &dir.path)).collect();
        let entered = rules::enter(self.tree, &self.filter, &asked)?;
        let mut kept = Vec::with_capacity(dirs.len());
        for (dir, rules) in dirs.into_iter().zip(entered) {
            match rules {
                Ok(rules) => kept.push(Folder { rules, ..dir }),
                Err(error) if error.kind() == ErrorKind::Usage => return Err(error),
                Err(error) => {
                    drop(self.forecast.list(dir.path.depth()));
                    batch.errors.push(Failure { path: dir.path, error });
                }
            }
        }
        Ok(kept)
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
            let listed = self.enter(dirs, &mut batch).and_then(|dirs| self.list(&dirs, &mut batch));
            self.folders.done(listed);
            self.hand_over(&mut batch, BATCH);
        }
        self.hand_over(&mut batch, 0);
    }

    fn hand_over(&self, batch: &mut ScanBatch, at_least: usize) {
        let count = batch.entries.len() + batch.errors.len();
        if count < at_least || count == 0 && batch.excluded == 0 || self.folders.is_stopped() {
            return;
        }
        batch.expected = self.forecast.expected();
        if let ControlFlow::Break(()) = (self.visit)(std::mem::take(batch)) {
            self.folders.stop();
        }
    }

    /// Lists directories. Names that were reported before a connection was lost are not reported again.
    fn list(&self, dirs: &[Folder], batch: &mut ScanBatch) -> Result<()> {
        let hasher = RandomState::new();
        let reported: Mutex<Vec<HashSet<u64>>> = Mutex::new(vec![HashSet::new(); dirs.len()]);
        let batch = Mutex::new(batch);
        let listings =
            Mutex::new(dirs.iter().map(|dir| self.forecast.list(dir.path.depth())).collect::<Vec<_>>());
        let paths: Vec<Vec<u8>> = dirs.iter().map(|dir| self.tree.remote(&dir.path)).collect();
        let failed = self.tree.pool().on_one(|conn| {
            let mut batch = batch.lock();
            let (mut reported, mut listings) = (reported.lock(), listings.lock());
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
                let before = batch.entries.len();
                if let Err(error) = self.names(conn, &dirs[at], names, &mut batch) {
                    // These names were not reported, so report them when the directory is listed again.
                    reported[at].retain(|hash| !now.contains(hash));
                    return Err(error);
                }
                (before..batch.entries.len()).for_each(|_| listings[at].name(Some(true)));
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
        let excludes = |entry: &Entry, batch: &mut ScanBatch| {
            batch.excludes(options, &self.filter, &folder.rules, entry)
        };
        let is_listed = |entry: &Entry| entry.is_dir() && options.lists(&entry.path);
        let dirs = completed.iter().filter_map(|(_, found)| found.as_ref().ok()?.as_ref());
        let dirs: Vec<&Found> = dirs
            .filter(|found| is_listed(&found.entry) && !excludes(&found.entry, &mut ScanBatch::default()))
            .collect();
        let mut lineages = self.lineages(conn, folder.lineage.as_ref(), &dirs)?.into_iter();
        for (path, found) in completed {
            match found {
                Ok(Some(Found { entry, .. })) => {
                    if excludes(&entry, batch) {
                        continue;
                    }
                    if is_listed(&entry) {
                        match lineages.next().unwrap_or(Ok(None)) {
                            Ok(lineage) => {
                                self.put(Folder { path, lineage, rules: folder.rules.clone() });
                            }
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
                Err(error) => {
                    if !batch.excludes_path(options, &self.filter, &folder.rules, &path, false) {
                        batch.errors.push(Failure { path, error });
                    }
                }
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
