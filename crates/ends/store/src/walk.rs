//! Walks the keys below a root, with many listings in parallel and one request for the metadata of each object.
//!
//! First, all keys below a directory are listed. Mostly they fit one page, and nothing below needs another listing. If
//! they do not, and the page covers few of the directory's own names, those names are listed, and the subtrees below
//! them in parallel. If there are many small subtrees, that would take more requests, so the pages of all keys are read
//! one after the other. Each thread holds one page in memory.

use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;

use haul_core::filter::{DirRules, Filter};
use haul_core::source::ScanVisit;
use haul_core::{Entry, Error, ErrorKind, Failure, RelPath, Result, ScanBatch, ScanOptions};
use haul_object::{ListPage, Object};
use haul_streams::sidecar::{self, SidecarObject};
use haul_threads::together;

use super::listing_entry::{ListingEntries, implied};
use super::metadata;
use super::rules;
use super::source_state::{Detail, SourceState};
use super::tree::{RootKind, Tree};
use haul_ends::frontier::Frontier;

/// Listings in parallel.
const THREADS: usize = 16;
/// Objects that are looked up before they are reported, so that the first are transferred during the next lookups.
const ASKED: usize = 256;

struct Walk<'a> {
    source: &'a SourceState,
    options: &'a ScanOptions,
    filter: Filter<'a>,
    /// The filter rules of files above the root.
    top: DirRules,
    visit: ScanVisit<'a>,
    work: Frontier<ListingWork>,
}

/// A listing to be made.
enum ListingWork {
    /// A directory with everything below it, and the filter rules of its parent.
    Directory(RelPath, DirRules),
    /// The names in a directory, from a page on.
    Names { directory: RelPath, rules: DirRules, next: Option<String>, held: Vec<Object> },
    /// All keys below a directory, from a page on. `above` are the directories, already reported, that its first key
    /// may be in.
    Keys { directory: RelPath, next: String, held: Vec<Object>, above: Vec<RelPath> },
}

/// Walks below the root of `source`.
pub(super) fn walk(source: &SourceState, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
    if options.one_file_system {
        let cause = "an object store has no file systems in it";
        let error = Error::new(ErrorKind::Usage, source.tree.side, "obey --one-file-system", cause);
        return Err(error.with_hint("leave it out"));
    }
    let (filter, top) = Filter::open(&options.rules, |names| rules::above(&source.tree, names))?;
    let walk = Walk { source, options, filter, top, visit, work: Frontier::default() };
    walk.hand_over(walk.starts()?);
    together(THREADS, "walk", || walk.run())?;
    walk.work.end()
}

/// The number of names in a directory that a page of all keys below it covers.
fn names_in(page: &ListPage, prefix: &str) -> usize {
    let name = |object: &Object| object.key.get(prefix.len()..)?.split('/').next().map(str::to_owned);
    page.objects.iter().filter_map(name).collect::<HashSet<_>>().len()
}

impl Walk<'_> {
    fn tree(&self) -> &Tree {
        &self.source.tree
    }

    /// The starts that are not directories, and the directories above them. Directories are reported when they are
    /// listed.
    fn starts(&self) -> Result<ScanBatch> {
        let mut batch = ScanBatch::default();
        if self.options.starts.is_empty() {
            match self.source.at_root()? {
                RootKind::Directory if self.options.lists(&RelPath::root()) => {
                    self.work.add([ListingWork::Directory(RelPath::root(), self.top.clone())]);
                }
                RootKind::Directory | RootKind::Object => self.start(&RelPath::root(), &mut batch)?,
                RootKind::Nothing => self.missing(&RelPath::root(), &mut batch),
            }
            return Ok(batch);
        }
        let above = self.options.above_starts();
        for found in self.source.look.each(&above, |path| self.source.ask_directory(path)) {
            batch.entries.extend(found.ok().flatten().map(|cached| cached.entry.clone()));
        }
        let starts: BTreeSet<&RelPath> = self.options.starts.iter().collect();
        for start in starts {
            self.start(start, &mut batch)?;
        }
        Ok(batch)
    }

    fn start(&self, path: &RelPath, batch: &mut ScanBatch) -> Result<()> {
        let (options, filter) = (self.options, &self.filter);
        let parent = path.parent();
        let rules = parent
            .map_or(Ok(self.top.clone()), |dir| rules::enter_all(self.source, filter, &self.top, &dir))?;
        let is_filtered = !path.is_root() && !options.enters_starts;
        match self.source.ask(path) {
            Ok(Some(cached)) => {
                let is_dir = cached.entry.is_dir();
                if is_filtered && batch.excludes_path(options, filter, &rules, path, is_dir) {
                    return Ok(());
                }
                if is_dir && options.lists(path) {
                    self.work.add([ListingWork::Directory(path.clone(), rules)]);
                } else {
                    batch.entries.push(cached.entry.clone());
                }
            }
            Ok(None) => self.missing(path, batch),
            Err(error) => batch.errors.push(Failure { path: path.clone(), error }),
        }
        Ok(())
    }

    fn missing(&self, path: &RelPath, batch: &mut ScanBatch) {
        let error =
            self.tree().error(ErrorKind::NotFound, "look at", path, "no object has a name that begins so");
        batch.errors.push(Failure { path: path.clone(), error });
    }

    fn run(&self) {
        while let Some(work) = self.work.take(|_| 1, || ()) {
            self.work.done(work.into_iter().try_for_each(|work| match work {
                ListingWork::Directory(directory, above) => self.directory(directory, &above),
                ListingWork::Names { directory, rules, next, held } => {
                    self.names(&directory, &rules, next.as_deref(), held)
                }
                ListingWork::Keys { directory, next, held, above } => {
                    let page =
                        self.tree().client.list(&self.tree().directory(&directory), false, Some(&next))?;
                    self.keys(&directory, page, held, above)
                }
            }));
        }
    }

    /// Lists a directory and everything below it; its names first, if the first page shows large subtrees.
    fn directory(&self, directory: RelPath, above: &DirRules) -> Result<()> {
        let rules = match rules::enter(self.source, &self.filter, above, &directory) {
            Ok(rules) => rules,
            Err(error) if matches!(error.kind(), ErrorKind::Usage | ErrorKind::Unreachable) => {
                return Err(error);
            }
            Err(error) => {
                let errors = vec![Failure { path: directory, error }];
                self.hand_over(ScanBatch { errors, ..ScanBatch::default() });
                return Ok(());
            }
        };
        if self.options.max_depth.is_some() || self.options.rules.are_in_tree() {
            return self.names(&directory, &rules, None, Vec::new());
        }
        let prefix = self.tree().directory(&directory);
        let page = self.tree().client.list(&prefix, false, None)?;
        // With filter rules, large excluded subtrees need not be listed.
        if page.next.is_some() && (!self.options.rules.is_empty() || names_in(&page, &prefix) < THREADS) {
            return self.names(&directory, &rules, None, Vec::new());
        }
        self.keys(&directory, page, Vec::new(), Vec::new())
    }

    /// Handles a page of all keys below a directory. `held` are objects that may turn out to be directories too.
    fn keys(
        &self,
        directory: &RelPath,
        page: ListPage,
        held: Vec<Object>,
        above: Vec<RelPath>,
    ) -> Result<()> {
        let first = implied(page.objects.first());
        let mut found = ListingEntries::default();
        if above.is_empty() {
            found.directories.insert(directory.clone(), None);
        }
        found.above = above;
        let (next, last) = (page.next.clone(), page.objects.last().map(|object| object.key.clone()));
        let (_, held) = found.take_page(self.tree(), directory, page, held);
        if let Some(next) = next {
            let above = found.above(self.tree(), &last.unwrap_or_default());
            self.work.add([ListingWork::Keys { directory: directory.clone(), next, held, above }]);
        }
        self.report(directory, &self.top, found, &first)
    }

    /// Handles a page of the names in a directory. `held` are objects that may turn out to be directories too.
    fn names(
        &self,
        directory: &RelPath,
        rules: &DirRules,
        next: Option<&str>,
        held: Vec<Object>,
    ) -> Result<()> {
        let prefix = self.tree().directory(directory);
        let page = self.tree().client.list(&prefix, true, next)?;
        let first = implied(page.objects.first());
        let mut found = ListingEntries::default();
        if next.is_none() {
            found.directories.insert(directory.clone(), None);
        }
        let after = page.next.clone();
        let (directories, held) = found.take_page(self.tree(), directory, page, held);
        let mut batch = ScanBatch::default();
        let (options, filter) = (self.options, &self.filter);
        let kept =
            directories.into_iter().filter(|path| !batch.excludes_path(options, filter, rules, path, true));
        let directories: Vec<_> = kept.collect();
        self.hand_over(batch);
        let (directories, unlisted): (Vec<_>, Vec<_>) =
            directories.into_iter().partition(|directory| self.options.lists(directory));
        found.directories.extend(unlisted.into_iter().map(|directory| (directory, None)));
        // The rest of the listing is queued below this page's subdirectories: they go first, which keeps the queue
        // short.
        let rest = after.map(|next| {
            let (directory, rules) = (directory.clone(), rules.clone());
            ListingWork::Names { directory, rules, next: Some(next), held }
        });
        let directories = directories.into_iter().map(|path| ListingWork::Directory(path, rules.clone()));
        self.work.add(rest.into_iter().chain(directories));
        self.report(directory, rules, found, &first)
    }

    /// Reports the entries of a page, except those that `rules` exclude. `listed` is the directory that was listed,
    /// which is not excluded. `first` supplies the time of directories without an object.
    fn report(
        &self,
        listed: &RelPath,
        rules: &DirRules,
        found: ListingEntries,
        first: &Object,
    ) -> Result<()> {
        let (options, filter) = (self.options, &self.filter);
        let mut batch = ScanBatch { errors: found.failures, ..ScanBatch::default() };
        let mut left_out: HashSet<RelPath> = HashSet::new();
        // The map is sorted: a directory comes before its content.
        let mut directories = Vec::new();
        for (path, object) in found.directories {
            if path.parent().is_some_and(|parent| left_out.contains(&parent))
                || path != *listed && batch.excludes_path(options, filter, rules, &path, true)
            {
                left_out.insert(path);
            } else {
                directories.push((path, object, true));
            }
        }
        let mut all = directories;
        for (path, object) in found.files {
            if path.parent().is_some_and(|parent| left_out.contains(&parent)) {
                continue;
            }
            if batch.excludes_path(options, filter, rules, &path, false) {
                continue;
            }
            all.push((path, Some(object), false));
        }
        for some in all.chunks(ASKED) {
            let looked_up = self
                .source
                .look
                .each(some, |(path, object, directory)| self.entry(path, object.as_ref(), *directory, first));
            for ((path, ..), looked_up) in some.iter().zip(looked_up) {
                match looked_up {
                    Ok(Some(entry)) if self.options.is_wrong_size_or_age(&entry) => {
                        batch.leaves_out(options, path, entry.is_dir());
                    }
                    Ok(Some(entry)) => batch.entries.push(entry),
                    // It has vanished since the listing, or is a sidecar.
                    Ok(None) => {}
                    Err(error) if error.kind() == ErrorKind::Unreachable => return Err(error),
                    Err(error) => batch.errors.push(Failure { path: path.clone(), error }),
                }
            }
            self.hand_over(std::mem::take(&mut batch));
            if self.work.is_stopped() {
                break;
            }
        }
        self.hand_over(batch);
        Ok(())
    }

    /// Looks up the entry that an object stands for.
    fn entry(
        &self,
        path: &RelPath,
        object: Option<&Object>,
        directory: bool,
        first: &Object,
    ) -> Result<Option<Entry>> {
        let client = &self.tree().client;
        if let Some(object) = object.filter(|object| !directory && object.len <= sidecar::MAX_LEN as u64)
            && let Some(owner) = object.key.strip_suffix(".haul")
        {
            let is_ours = if owner.ends_with('/') {
                client.look(&object.key)?.is_some_and(|object| metadata::is_directory(&object))
            } else {
                sidecar::beside(client, owner)? == SidecarObject::Sidecar
            };
            if is_ours {
                return Ok(None);
            }
        }
        let learn = |object: Object| Ok(Some(self.source.learn(path, object, directory)?.entry.clone()));
        match (self.source.detail, object) {
            (Detail::Names, object) => learn(object.unwrap_or(first).clone()),
            (Detail::Full, Some(object))
                if object.has_metadata && (!directory || metadata::are_there(object)) =>
            {
                learn(object.clone())
            }
            (Detail::Full, Some(object)) if !directory => {
                Ok(self.source.learn_listed(path, object)?.map(|cached| cached.entry.clone()))
            }
            // Not all stores list a directory's own object.
            (Detail::Full, _) => learn(self.tree().look_directory(path)?.unwrap_or_else(|| first.clone())),
        }
    }

    fn hand_over(&self, batch: ScanBatch) {
        let empty = batch.entries.is_empty() && batch.errors.is_empty() && batch.excluded == 0;
        if !empty && let ControlFlow::Break(()) = (self.visit)(batch) {
            self.work.stop();
        }
    }
}
