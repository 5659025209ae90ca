//! The threads of a walk, and the listing of directories.

use std::sync::Arc;
use std::thread::{self, Scope};

use haul_core::source::ScanVisit;
use haul_core::staging::is_staging_name;
use haul_core::{RelPath, Result, ScanBatch, ScanOptions};
use haul_ends::forecast::Forecast;
use haul_index::Index;
use rustix::fs::{OFlags, RawDir};
use rustix::io::Errno;

use super::names::{BATCH, Walk};
use super::stack::{Directory, Lookups, WalkStep};
use crate::meta::entry::entry;
use crate::path::at::Dir;
use crate::tree::local_tree::LocalTree;
use haul_ends::thread_pool::{Seat, ThreadPool};

/// Entries that are handed over at a time on a network file system, where they come slowly.
const SLOW_BATCH: usize = 32;
/// Names of one directory that one thread looks up, if each is a request to a server.
const NAMES: usize = 32;

/// Walks below the root. Directories that are unchanged since the run of the `index` are not listed again.
///
/// # Errors
/// `Usage` if a file of filter rules is none; errors on entries are in the batches.
pub(crate) fn walk(
    tree: &LocalTree,
    threads: &ThreadPool,
    index: Option<&Index>,
    options: &ScanOptions,
    visit: ScanVisit<'_>,
) -> Result<()> {
    let forecast = Forecast::default();
    let mut walk = Walk::new(tree, threads, index, options, visit, &forecast)?;
    let mut first = ScanBatch::default();
    for path in options.above_starts() {
        if let Ok(at) = tree.root.at(&path)
            && let Ok(entry) = entry(tree, &at, path, walk.names.as_ref())
        {
            first.entries.push(entry);
        }
    }
    let starts = if options.starts.is_empty() { vec![RelPath::root()] } else { options.starts.clone() };
    for start in starts {
        walk.start(&start, &mut first)?;
    }
    walk.visit(first);
    if walk.is_stopped() {
        return Ok(());
    }
    let walk = &walk;
    thread::scope(|scope| walk.run(scope, threads.own_seat()));
    if let Some(index) = index.filter(|_| !walk.is_stopped()) {
        index.scanned();
    }
    walk.end()
}

impl<'a> Walk<'a> {
    /// One thread: takes steps until the stack is empty. A thread that adds to the stack calls others.
    fn run<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, seat: Seat<'scope>) {
        let mut batch = ScanBatch::default();
        let mut space = Vec::with_capacity(64 * 1024);
        let enough = if self.tree.is_network_fs() { SLOW_BATCH } else { BATCH };
        let call = || {
            if let Some(seat) = self.threads.seat() {
                // If no thread can be started, the running ones do all the work.
                let _ = thread::Builder::new().spawn_scoped(scope, move || self.run(scope, seat));
            }
        };
        while !self.is_stopped()
            && let Some((step, more)) = self.next()
        {
            if more {
                call();
            }
            match step {
                WalkStep::List(directory) => {
                    if let Err(errno) = self.list(&directory, &mut batch, &mut space, &call)
                        // The directory was removed since it was found.
                        && errno != Errno::NOENT
                    {
                        batch.errors.push(self.failure("list the directory", &directory.path, errno));
                    }
                    self.threads.done();
                }
                WalkStep::Look(part) => {
                    let depth = part.path.depth();
                    for name in &part.names {
                        let is_entry = self.look_up(&part, name, &mut batch, &call);
                        self.forecast.looked_up(depth, 1, u64::from(is_entry));
                        self.threads.done();
                        self.hand_over(&mut batch, BATCH);
                    }
                }
            }
            self.hand_over(&mut batch, enough);
        }
        self.hand_over(&mut batch, 0);
        drop(seat);
    }

    /// Lists a directory, from the index or from the file system.
    fn list(
        &self,
        directory: &Directory,
        batch: &mut ScanBatch,
        space: &mut Vec<u8>,
        call: &dyn Fn(),
    ) -> rustix::io::Result<()> {
        let path = &directory.path;
        let mut forecast = self.forecast.list(path.depth());
        let Some(rules) = self.rules_of(directory, batch) else { return Ok(()) };
        if let Some(known) = self.index.and_then(|index| index.directory(path, &directory.stamp)) {
            return self.list_indexed(directory, &rules, &known, &mut forecast, batch, call);
        }
        let record = self.index.and_then(|index| index.record(path, directory.stamp)).map(Arc::new);
        let _doing = self.tree.doing("list the directory", path);
        let opened = self.tree.root.open(&self.at(directory)?, path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let dir = Arc::new(Dir::new(opened, false, &self.tree.root.ops));
        let mut names = 0;
        let part = Lookups::new(path, dir.clone(), NAMES, record).with_rules(rules);
        let mut part = part.descending(directory.lineage.clone());
        let mut listing = RawDir::new(&*dir, space.spare_capacity_mut());
        while let Some(found) = {
            if listing.is_buffer_empty() {
                self.tree.root.ops.one();
            }
            listing.next()
        } {
            let found = found?;
            let name = found.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            if self.is_stopped() {
                return Ok(());
            }
            if is_staging_name(name) {
                batch.excluded += 1;
                part.record.iter().for_each(|record| record.hid());
                continue;
            }
            names += 1;
            forecast.name(self.meet(&mut part, name, batch, call));
        }
        part.record.iter().for_each(|record| record.listed(names));
        self.put_off(part);
        Ok(())
    }
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
