//! Walks a tree on the share: many listings side by side.

use std::ops::ControlFlow;

use haul_core::filter::{DirRules, Filter};
use haul_core::source::ScanVisit;
use haul_core::staging::is_staging_name;
use haul_core::{Entry, Error, ErrorKind, Failure, RelPath, Result, ScanBatch, ScanOptions};
use haul_ends::frontier::Frontier;
use haul_threads::together;

use super::entries::{entries_at, entry};
use super::listing::Listing;
use super::named::Named;
use super::reply::Fault;
use super::rules;
use super::tree::Tree;

/// Entries handed over at a time.
const BATCH: usize = 512;
/// Threads of one walk.
const THREADS: usize = 2;
/// Directories that one thread lists at a time.
const SIDE_BY_SIDE: usize = 64;

struct Walk<'a> {
    tree: &'a Tree,
    options: &'a ScanOptions,
    filter: Filter<'a>,
    /// The filter rules of files above the root.
    top: DirRules,
    visit: ScanVisit<'a>,
    folders: Frontier<Folder>,
}

/// A directory that is to be listed.
struct Folder {
    path: RelPath,
    /// The filter rules of its parent, then its own.
    rules: DirRules,
}

/// Walks below the root of `tree`.
pub(super) fn walk(tree: &Tree, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
    if options.one_file_system {
        let cause = "SMB does not tell one file system from another";
        let error = Error::new(ErrorKind::Usage, tree.side, "obey --one-file-system", cause);
        return Err(error.with_hint("leave it out, and what is to stay out with --exclude"));
    }
    if options.owner_names {
        tree.smb.server.note("haul asks a share for no owners: --owner-by-name has no effect on this source");
    }
    let (filter, top) = Filter::open(&options.rules, |names| rules::above(tree, names))?;
    let walk = Walk { tree, options, filter, top, visit, folders: Frontier::default() };
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
                        self.folders.add([Folder { path: path.clone(), rules }]);
                    }
                    batch.entries.push(entry);
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    let cause = "No such file or directory";
                    let error = self.tree.fault(ErrorKind::NotFound, "look at", path, cause);
                    batch.errors.push(Failure { path: path.clone(), error });
                }
                Err(error) => batch.errors.push(Failure { path: path.clone(), error }),
            }
        }
        Ok(batch)
    }

    /// The filter rules of the directory that a start is in.
    fn rules_above(&self, start: &RelPath) -> Result<DirRules> {
        start.parent().map_or(Ok(self.top.clone()), |parent| {
            rules::enter_all(self.tree, &self.filter, &self.top, &parent)
        })
    }

    fn excludes_start(&self, rules: &DirRules, entry: &Entry, batch: &mut ScanBatch) -> bool {
        let is_filtered = !entry.path.is_root() && !self.options.enters_starts;
        is_filtered && batch.excludes_path(self.options, &self.filter, rules, &entry.path, entry.is_dir())
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
                Err(error) => batch.errors.push(Failure { path: dir.path, error }),
            }
        }
        Ok(kept)
    }

    fn run(&self) {
        let mut batch = ScanBatch::default();
        // A fair share, so that the other threads have work too.
        let share = |len: usize| len.div_ceil(THREADS).min(SIDE_BY_SIDE);
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
        if let ControlFlow::Break(()) = (self.visit)(std::mem::take(batch)) {
            self.folders.stop();
        }
    }

    /// Lists directories side by side, and takes some names of each in turn.
    fn list(&self, dirs: &[Folder], batch: &mut ScanBatch) -> Result<()> {
        let mut open: Vec<(&Folder, Listing<'_>)> =
            dirs.iter().map(|dir| (dir, Listing::new(self.tree, &dir.path))).collect();
        while !open.is_empty() && !self.folders.is_stopped() {
            let next = self.tree.smb.all(open, async |(dir, mut listing): (&Folder, Listing<'_>)| {
                let names = listing.next().await;
                (dir, listing, names)
            })?;
            open = Vec::new();
            for (dir, listing, names) in next {
                match names {
                    Ok(Some(names)) => {
                        self.names(dir, names, batch);
                        open.push((dir, listing));
                    }
                    Ok(None) => {}
                    Err(Fault::Failed(error)) if error.kind() == ErrorKind::Unreachable => return Err(error),
                    // A directory may have been removed since it was found.
                    Err(fault) if fault.is_missing() && !dir.path.is_root() => {}
                    Err(fault) => {
                        let error = self.tree.error("list the folder", &dir.path, fault);
                        batch.errors.push(Failure { path: dir.path.clone(), error });
                    }
                }
                self.hand_over(batch, BATCH);
            }
        }
        open.iter_mut().for_each(|(_, listing)| listing.close());
        Ok(())
    }

    /// Takes the names of a part of a listing.
    fn names(&self, folder: &Folder, names: Vec<Named>, batch: &mut ScanBatch) {
        let (options, parent) = (self.options, &folder.path);
        for named in names {
            let name = self.tree.name_from(&named.name);
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
                    let error = self.tree.fault(ErrorKind::Unsupported, "take an entry of", parent, &cause);
                    batch.errors.push(Failure { path: parent.clone(), error });
                    continue;
                }
            };
            match entry(self.tree, &path, &named.attrs) {
                Ok(entry) if batch.excludes(options, &self.filter, &folder.rules, &entry) => {}
                Ok(entry) => {
                    if entry.is_dir() && options.lists(&path) {
                        self.folders.add([Folder { path, rules: folder.rules.clone() }]);
                    }
                    batch.entries.push(entry);
                }
                Err(error) => {
                    if !batch.excludes_path(options, &self.filter, &folder.rules, &path, false) {
                        batch.errors.push(Failure { path, error });
                    }
                }
            }
        }
    }
}
