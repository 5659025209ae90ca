//! The state of a walk, and the lookup of the names in one directory.

use haul_core::sync::Mutex;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::filter::{DirRules, Filter};
use haul_core::source::{OWN_ANCESTOR, ScanVisit};
use haul_core::{Error, ErrorKind, Failure, RelPath, Result, ScanBatch, ScanOptions};
use haul_ends::forecast::Forecast;
use haul_index::Index;
use rustix::io::Errno;

use super::lineage::Lineage;
use super::rules;
use super::stack::{Directory, Lookups, Stack, WalkStep};
use crate::meta::entry::{FoundEntry, OwnerLookup, find};
use crate::path::at::At;
use crate::path::descriptors;
use crate::path::stat;
use crate::tree::local_tree::LocalTree;
use haul_ends::thread_pool::ThreadPool;

/// Entries that are handed over at a time.
pub(super) const BATCH: usize = 512;
/// Bytes of paths that are handed over at a time.
const BATCH_BYTES: usize = 1024 * 1024;
/// Names on the stack, in parts, at most. More are looked up by the thread that lists them.
const MAX_PARTS: usize = 1024;

/// One walk.
pub(super) struct Walk<'a> {
    pub(super) tree: &'a LocalTree,
    pub(super) threads: &'a ThreadPool,
    pub(super) options: &'a ScanOptions,
    pub(super) filter: Filter<'a>,
    /// The filter rules of files above the root.
    top: DirRules,
    pub(super) names: Option<OwnerLookup>,
    /// The entries of an earlier run; this walk updates them.
    pub(super) index: Option<&'a Index>,
    visit: ScanVisit<'a>,
    pub(super) forecast: &'a Forecast,
    stack: Mutex<Stack<'a>>,
    stopped: AtomicBool,
    /// The error that ended the walk.
    failed: Mutex<Option<Error>>,
    /// The most directories on the stack that hold a descriptor.
    most_held: usize,
    /// The file system to stay on, with `one_file_system`.
    dev: Option<u64>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        tree: &'a LocalTree,
        threads: &'a ThreadPool,
        index: Option<&'a Index>,
        options: &'a ScanOptions,
        visit: ScanVisit<'a>,
        forecast: &'a Forecast,
    ) -> Result<Self> {
        let (filter, top) = Filter::open(&options.rules, |names| rules::above(tree, names))?;
        Ok(Self {
            filter,
            top,
            tree,
            threads,
            options,
            names: options.owner_names.then(OwnerLookup::default),
            index,
            visit,
            forecast,
            stack: Mutex::default(),
            stopped: AtomicBool::new(false),
            failed: Mutex::default(),
            most_held: descriptors::share(8).min(MAX_PARTS),
            dev: None,
        })
    }

    /// The result of the walk.
    pub(super) fn end(&self) -> Result<()> {
        self.failed.lock().take().map_or(Ok(()), Err)
    }

    /// The filter rules of a directory. If its file of rules cannot be read, the directory is not listed; if it is no
    /// file of rules, the walk ends.
    pub(super) fn rules_of(&self, directory: &Directory, batch: &mut ScanBatch) -> Option<DirRules> {
        if !self.options.rules.are_in_tree() {
            return Some(directory.rules_above.clone());
        }
        match rules::enter(self.tree, &self.filter, &directory.rules_above, &directory.path) {
            Ok(rules) => return Some(rules),
            Err(error) if error.kind() == ErrorKind::Usage => {
                self.failed.lock().get_or_insert(error);
                self.stopped.store(true, Ordering::Relaxed);
            }
            Err(error) => batch.errors.push(Failure { path: directory.path.clone(), error }),
        }
        None
    }

    /// Adds a start of the walk, and hands over its entry.
    ///
    /// # Errors
    /// `Usage` if a file of filter rules is none.
    pub(super) fn start(&mut self, start: &RelPath, batch: &mut ScanBatch) -> Result<()> {
        let parent = start.parent();
        let rules_above = parent.map_or(Ok(self.top.clone()), |parent| {
            rules::enter_all(self.tree, &self.filter, &self.top, &parent)
        });
        let rules_above = match rules_above {
            Ok(rules) => rules,
            Err(error) if error.kind() == ErrorKind::Usage => return Err(error),
            Err(error) => {
                batch.errors.push(Failure { path: start.clone(), error });
                return Ok(());
            }
        };
        let found = self.tree.root.at(start).and_then(|at| {
            let found = find(self.tree, &at, start.clone(), self.names.as_ref())?;
            Ok((at, found))
        });
        match found {
            Err(Errno::NOENT) => batch.errors.push(self.failure("find", start, Errno::NOENT)),
            Err(errno) => batch.errors.push(self.failure("look at", start, errno)),
            Ok((at, found)) => {
                let above = if found.entry.is_dir() { self.above(start) } else { None };
                let lineage = self.lineage(above.as_ref(), &found);
                let FoundEntry { entry, stamp, .. } = found;
                if self.dev.is_none() && self.options.one_file_system {
                    self.dev = Some(entry.dev);
                }
                let (options, is_dir) = (self.options, entry.is_dir());
                let is_filtered = !start.is_root() && !options.enters_starts;
                if is_filtered && batch.excludes_path(options, &self.filter, &rules_above, start, is_dir) {
                    return Ok(());
                }
                if entry.is_dir() && self.options.lists(start) {
                    let Some(lineage) = lineage else {
                        batch.errors.push(self.own_ancestor(start));
                        return Ok(());
                    };
                    let most = self.most_held;
                    let (path, at) = (start.clone(), Some(at));
                    self.forecast.found_directory(path.depth());
                    self.stack.lock().put(Directory { path, at, stamp, lineage, rules_above }, most);
                }
                batch.entries.push(entry);
            }
        }
        Ok(())
    }

    /// The directories above a start, if links are followed.
    fn above(&self, start: &RelPath) -> Option<Arc<Lineage>> {
        let mut above = None;
        let ends = start.as_bytes().iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let is_below = self.tree.root.follows_links() && !start.is_root();
        for end in std::iter::once(0).chain(ends).filter(|_| is_below) {
            let dir = start.ancestor(end).and_then(|dir| self.tree.root.dir(&dir, false).ok());
            if let Some(now) = dir.and_then(|dir| stat::statx_held(&*dir).ok()) {
                // Any of them may be a link.
                above = Lineage::below(above.as_ref(), stat::inode(&now), true).or(above);
            }
        }
        above
    }

    /// The lineage of a directory below `above`, which is `None` if links are not followed. No lineage at all if it is
    /// one of those above.
    #[expect(clippy::option_option, reason = "the two mean different things")]
    fn lineage(&self, above: Option<&Arc<Lineage>>, found: &FoundEntry) -> Option<Option<Arc<Lineage>>> {
        if !self.tree.root.follows_links() {
            return Some(None);
        }
        Lineage::below(above, (found.entry.dev, found.entry.ino), found.followed).map(Some)
    }

    fn own_ancestor(&self, path: &RelPath) -> Failure {
        let error = self.tree.root.fault(ErrorKind::Io, "follow the link", path, OWN_ANCESTOR);
        Failure { path: path.clone(), error }
    }

    pub(super) fn failure(&self, operation: &str, path: &RelPath, errno: Errno) -> Failure {
        Failure { path: path.clone(), error: self.tree.root.error(operation, path, errno) }
    }

    /// The next step, and whether there are more. Names go first: they hold memory, and handles.
    pub(super) fn next(&self) -> Option<(WalkStep<'a>, bool)> {
        let mut stack = self.stack.lock();
        let step = match stack.names.pop() {
            Some(part) => WalkStep::Look(part),
            None => stack.dirs.pop().map(WalkStep::List)?,
        };
        Some((step, !stack.names.is_empty() || !stack.dirs.is_empty()))
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Hands over a batch of at least so many entries, or with long paths.
    pub(super) fn hand_over(&self, batch: &mut ScanBatch, at_least: usize) {
        // Paths in one directory have about the same length.
        let longest = batch.entries.last().map_or(0, |entry| entry.path.as_bytes().len());
        let is_light = longest.saturating_mul(batch.entries.len()) < BATCH_BYTES;
        if batch.entries.len() + batch.errors.len() < at_least && is_light
            || batch.entries.is_empty() && batch.errors.is_empty() && batch.excluded == 0
        {
            return;
        }
        self.visit(std::mem::take(batch));
    }

    pub(super) fn visit(&self, mut batch: ScanBatch) {
        batch.expected = self.forecast.expected();
        if let ControlFlow::Break(()) = (self.visit)(batch) {
            self.stopped.store(true, Ordering::Relaxed);
        }
    }

    /// Finds a directory of the stack.
    pub(super) fn at(&self, directory: &Directory) -> rustix::io::Result<At> {
        directory.at.clone().map_or_else(|| self.tree.root.at(&directory.path), Ok)
    }

    /// Looks up a name, and returns whether it is an entry of the scan; or later (`None`) if that is a request to a
    /// server, unless too many wait already. `call` calls another thread.
    pub(super) fn meet(
        &self,
        part: &mut Lookups<'a>,
        name: &[u8],
        batch: &mut ScanBatch,
        call: &dyn Fn(),
    ) -> Option<bool> {
        if self.tree.is_network_fs() && self.stack.lock().names.len() < MAX_PARTS {
            part.names.push(name.to_vec());
            if part.names.len() == part.most {
                let full = part.take();
                self.stack.lock().names.push(full);
                call();
            }
            None
        } else {
            let is_entry = self.look_up(part, name, batch, call);
            self.hand_over(batch, BATCH);
            Some(is_entry)
        }
    }

    /// Puts the remaining names of a directory on the stack.
    pub(super) fn put_off(&self, part: Lookups<'a>) {
        if !part.names.is_empty() {
            self.stack.lock().names.push(part);
        }
    }

    /// Looks up one name, and adds its entry to the batch, if it is one of the scan.
    pub(super) fn look_up(
        &self,
        part: &Lookups<'a>,
        name: &[u8],
        batch: &mut ScanBatch,
        call: &dyn Fn(),
    ) -> bool {
        let path = match part.path.join(name) {
            Ok(path) => path,
            Err(bad) => {
                let (root, parent) = (&self.tree.root, &part.path);
                let error =
                    root.fault(ErrorKind::Unsupported, "take the path below", parent, &bad.to_string());
                batch.errors.push(Failure { path: parent.clone(), error });
                return false;
            }
        };
        let at = At { dir: part.dir.clone(), name: name.to_vec() };
        let _doing = self.tree.doing("look at", &path);
        let found = match find(self.tree, &at, path.clone(), self.names.as_ref()) {
            Ok(found) => found,
            Err(Errno::NOENT) => return false,
            // As with rsync, a link that cannot be followed may be excluded.
            Err(errno) => {
                let follows = self.tree.root.follows_links();
                if follows && batch.excludes_path(self.options, &self.filter, &part.rules, &path, false) {
                    return false;
                }
                batch.errors.push(self.failure("look at", &path, errno));
                return false;
            }
        };
        part.record.iter().for_each(|record| record.saw(&found.entry));
        if batch.excludes(self.options, &self.filter, &part.rules, &found.entry) {
            return false;
        }
        let is_listed = found.entry.is_dir()
            && self.dev.is_none_or(|dev| dev == found.entry.dev)
            && self.options.lists(&path);
        if is_listed {
            let Some(lineage) = self.lineage(part.lineage.as_ref(), &found) else {
                batch.errors.push(self.own_ancestor(&path));
                return false;
            };
            self.forecast.found_directory(path.depth());
            let (stamp, rules_above) = (found.stamp, part.rules.clone());
            self.stack
                .lock()
                .put(Directory { path, at: Some(at), stamp, lineage, rules_above }, self.most_held);
            call();
        }
        batch.entries.push(found.entry);
        true
    }
}
