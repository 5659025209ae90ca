//! The walk of a tree on a server: its threads list many directories side by side.

use std::ops::ControlFlow;

use haul_core::filter::{DirRules, Filter};
use haul_core::source::ScanVisit;
use haul_core::{Entry, Error, ErrorKind, Failure, RelPath, Result, ScanBatch, ScanOptions};
use haul_threads::together;

use crate::forecast::Forecast;
use crate::frontier::Frontier;
use crate::server_tree::{ServerTree, enter, enter_all};

/// Entries handed over at a time.
const BATCH: usize = 512;

/// A walk below the root of a tree.
pub struct Walk<'a, T, P> {
    /// The tree.
    pub tree: &'a T,
    options: &'a ScanOptions,
    filter: Filter<'a>,
    /// The filter rules of files above the root.
    top: DirRules,
    visit: ScanVisit<'a>,
    directories: Frontier<Directory<P>>,
    /// The number of entries that the walk still has to find.
    pub forecast: Forecast,
}

/// A directory that is to be listed.
pub struct Directory<P> {
    /// Its path.
    pub path: RelPath,
    /// The end's own data about it.
    pub place: P,
    /// The filter rules of its parent, then its own.
    pub rules: DirRules,
}

/// How an end lists.
pub struct Lister<'a, T, P> {
    /// Threads of one walk.
    pub threads: usize,
    /// Directories that one thread lists at a time.
    pub side_by_side: usize,
    /// The place of a start that is to be listed.
    pub place: &'a (dyn Fn(&RelPath) -> Result<Result<P>> + Sync),
    /// Lists directories and hands their entries over.
    pub list: ListDirectories<T, P>,
}

/// Lists directories of a walk into a batch.
type ListDirectories<T, P> = fn(&Walk<'_, T, P>, &[Directory<P>], &mut ScanBatch) -> Result<()>;

impl<'a, T: ServerTree, P: Send> Walk<'a, T, P> {
    /// Walks below the root of `tree`.
    ///
    /// # Errors
    /// If the server cannot be asked; `Usage` if a file of filter rules is none.
    pub fn run(
        tree: &'a T,
        options: &'a ScanOptions,
        visit: ScanVisit<'a>,
        lister: &Lister<'_, T, P>,
    ) -> Result<()> {
        let (filter, top) = Filter::open(&options.rules, |names| tree.rules_above(names))?;
        let (directories, forecast) = (Frontier::default(), Forecast::default());
        let walk = Self { tree, options, filter, top, visit, directories, forecast };
        let first = walk.starts(lister)?;
        if (walk.visit)(first).is_break() {
            return Ok(());
        }
        together(lister.threads, "walk", || walk.work(lister))?;
        walk.directories.end()
    }

    /// The starts and the directories above them.
    fn starts(&self, lister: &Lister<'_, T, P>) -> Result<ScanBatch> {
        let starts =
            if self.options.starts.is_empty() { vec![RelPath::root()] } else { self.options.starts.clone() };
        let above = self.tree.entries_at(&self.options.above_starts())?;
        let mut batch = ScanBatch::default();
        batch.entries.extend(above.into_iter().filter_map(|found| found.ok()?));
        for (path, found) in starts.iter().zip(self.tree.entries_at(&starts)?) {
            let rules = match self.rules_above(path) {
                Ok(rules) => rules,
                Err(error) if error.kind() == ErrorKind::Usage => return Err(error),
                Err(error) => {
                    batch.errors.push(Failure { path: path.clone(), error });
                    continue;
                }
            };
            let missing = || self.tree.missing("look at", path);
            match found.and_then(|found| found.ok_or_else(missing)) {
                Ok(entry) if self.excludes_start(&rules, &entry, &mut batch) => {}
                Ok(entry) => {
                    let is_listed = entry.is_dir() && self.options.lists(path);
                    match is_listed.then(|| (lister.place)(path)).transpose()?.transpose() {
                        Ok(place) => {
                            batch.entries.push(entry);
                            place.into_iter().for_each(|place| self.add(path.clone(), place, &rules));
                        }
                        Err(error) => batch.errors.push(Failure { path: path.clone(), error }),
                    }
                }
                Err(error) => batch.errors.push(Failure { path: path.clone(), error }),
            }
        }
        Ok(batch)
    }

    /// Adds a directory that is to be listed, in one with these `rules`.
    fn add(&self, path: RelPath, place: P, rules: &DirRules) {
        self.forecast.found_directory(path.depth());
        self.directories.add([Directory { path, place, rules: rules.clone() }]);
    }

    /// The filter rules of the directory that a start is in.
    fn rules_above(&self, start: &RelPath) -> Result<DirRules> {
        let parent = start.parent();
        parent.map_or(Ok(self.top.clone()), |parent| enter_all(self.tree, &self.filter, &self.top, &parent))
    }

    fn excludes_start(&self, rules: &DirRules, entry: &Entry, batch: &mut ScanBatch) -> bool {
        let is_filtered = !entry.path.is_root() && !self.options.enters_starts;
        is_filtered && batch.excludes_path(self.options, &self.filter, rules, &entry.path, entry.is_dir())
    }

    /// Whether an entry of `directory` is listed itself, unless it is left out.
    pub fn lists(&self, directory: &Directory<P>, entry: &Entry) -> bool {
        let is_listed = entry.is_dir() && self.options.lists(&entry.path);
        is_listed && !self.excludes(directory, entry, &mut ScanBatch::default())
    }

    fn excludes(&self, directory: &Directory<P>, entry: &Entry, batch: &mut ScanBatch) -> bool {
        batch.excludes(self.options, &self.filter, &directory.rules, entry)
    }

    /// Reports an entry of `directory`, unless it is left out. `place` is asked for that of a directory that is to be
    /// listed.
    pub fn found(
        &self,
        directory: &Directory<P>,
        entry: Entry,
        place: impl FnOnce() -> Result<P>,
        batch: &mut ScanBatch,
    ) {
        if self.excludes(directory, &entry, batch) {
            return;
        }
        if entry.is_dir() && self.options.lists(&entry.path) {
            match place() {
                Ok(place) => self.add(entry.path.clone(), place, &directory.rules),
                Err(error) => return batch.errors.push(Failure { path: entry.path, error }),
            }
        }
        batch.entries.push(entry);
    }

    /// Reports the error of an entry of `directory`, unless that is left out.
    pub fn failed(&self, directory: &Directory<P>, path: RelPath, error: Error, batch: &mut ScanBatch) {
        if !batch.excludes_path(self.options, &self.filter, &directory.rules, &path, false) {
            batch.errors.push(Failure { path, error });
        }
    }

    /// Gives directories their own filter rules. Drops those whose file of rules cannot be read.
    ///
    /// # Errors
    /// `Usage` if it is no file of rules; the error of a lost connection.
    fn enter(&self, dirs: Vec<Directory<P>>, batch: &mut ScanBatch) -> Result<Vec<Directory<P>>> {
        if !self.options.rules.are_in_tree() {
            return Ok(dirs);
        }
        let asked: Vec<_> = dirs.iter().map(|dir| (&dir.rules, &dir.path)).collect();
        let entered = enter(self.tree, &self.filter, &asked)?;
        let mut kept = Vec::with_capacity(dirs.len());
        for (dir, rules) in dirs.into_iter().zip(entered) {
            match rules {
                Ok(rules) => kept.push(Directory { rules, ..dir }),
                Err(error) if error.kind() == ErrorKind::Usage => return Err(error),
                Err(error) => {
                    drop(self.forecast.list(dir.path.depth()));
                    batch.errors.push(Failure { path: dir.path, error });
                }
            }
        }
        Ok(kept)
    }

    fn work(&self, lister: &Lister<'_, T, P>) {
        let mut batch = ScanBatch::default();
        // A fair share, so that the other threads have work too.
        let share = |len: usize| (len / lister.threads).min(lister.side_by_side);
        while let Some(dirs) = self.directories.take(share, || self.hand_over_all(&mut batch)) {
            let listed = self.enter(dirs, &mut batch).and_then(|dirs| (lister.list)(self, &dirs, &mut batch));
            self.directories.done(listed);
            self.hand_over(&mut batch);
        }
        self.hand_over_all(&mut batch);
    }

    /// Hands over the batch, if it is full.
    pub fn hand_over(&self, batch: &mut ScanBatch) {
        if batch.entries.len() + batch.errors.len() >= BATCH {
            self.hand_over_all(batch);
        }
    }

    fn hand_over_all(&self, batch: &mut ScanBatch) {
        let is_empty = batch.entries.is_empty() && batch.errors.is_empty() && batch.excluded == 0;
        if is_empty || self.is_stopped() {
            return;
        }
        batch.expected = self.forecast.expected();
        if let ControlFlow::Break(()) = (self.visit)(std::mem::take(batch)) {
            self.directories.stop();
        }
    }

    /// Whether no more is to be found.
    pub fn is_stopped(&self) -> bool {
        self.directories.is_stopped()
    }
}
