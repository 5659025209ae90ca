//! Collects the batches of a scan and makes the plan.

use std::collections::BTreeMap;

use haul_core::{Entry, EntryKind, RelPath, Result, ScanBatch};
use haul_spool::Sorter;

use crate::directories::OpenDirectories;
use crate::errors::list_failed;
use crate::histogram::Histogram;
use crate::links::{self, HardLinkName};
use crate::order::ScannedEntry;
use crate::output::PlanOutput;
use crate::plan::{Plan, Unfit};
use crate::request::PlanOptions;
use crate::split::{Partitioner, wanted};
use crate::tally::{Tally, data_len};
use crate::target::Reason;
use crate::top::Top;

/// The examples that are kept of each reason.
const EXAMPLES: usize = 10;

/// Takes a scan and makes a plan of it.
pub struct Collector {
    request: PlanOptions,
    tally: Tally,
    histogram: Histogram,
    largest: Top,
    /// The files that are assigned to a partition before the others.
    large_files: Top,
    longest_name: Top,
    longest_path: Top,
    /// All entries except the names in `names`.
    tree: Sorter<ScannedEntry>,
    /// The names of files with several names.
    names: Sorter<HardLinkName>,
    /// Folded paths with the original ones.
    folded: Sorter<(Vec<u8>, RelPath)>,
    unfit: BTreeMap<Reason, Unfit>,
    /// Bytes of content, for progress output.
    found_bytes: u64,
}

impl Collector {
    /// An empty collector.
    #[must_use]
    pub fn new(request: PlanOptions) -> Self {
        Self {
            request,
            tally: Tally::default(),
            histogram: Histogram::default(),
            largest: Top::new(request.top),
            large_files: Top::new(wanted(request.split)),
            longest_name: Top::new(1),
            longest_path: Top::new(1),
            tree: Sorter::default(),
            names: Sorter::default(),
            folded: Sorter::default(),
            unfit: BTreeMap::new(),
            found_bytes: 0,
        }
    }

    /// Entries and bytes of content so far.
    #[must_use]
    pub fn so_far(&self) -> (u64, u64) {
        (self.tally.entries, self.found_bytes)
    }

    /// Takes a batch of a scan.
    ///
    /// # Errors
    /// The error of writing a spooled list.
    pub fn add(&mut self, batch: &ScanBatch, out: &mut dyn PlanOutput) -> Result<()> {
        self.tally.errors += batch.errors.len() as u64;
        self.tally.excluded += batch.excluded;
        for entry in &batch.entries {
            self.entry(entry, out)?;
        }
        Ok(())
    }

    fn entry(&mut self, entry: &Entry, out: &mut dyn PlanOutput) -> Result<()> {
        self.tally.entries += 1;
        self.found_bytes = self.found_bytes.saturating_add(entry.len);
        if !entry.path.is_root() {
            self.longest_name.add(entry.path.name().len() as u64, &entry.path, ());
            self.longest_path.add(entry.path.as_bytes().len() as u64, &entry.path, ());
        }
        self.fit(entry, out)?;
        let mut bytes = 0;
        match entry.kind {
            EntryKind::Dir => self.tally.directories += 1,
            EntryKind::Symlink(_) => self.tally.symlinks += 1,
            EntryKind::File if entry.nlink > 1 => {
                return self.names.push(HardLinkName::new(entry)).map_err(|e| list_failed(&e));
            }
            EntryKind::File => {
                bytes = data_len(entry.len, entry.allocated);
                self.large_files.add(bytes, &entry.path, ());
                self.tally.file(entry.len, entry.allocated);
                self.histogram.add(entry.len);
                self.largest.add(entry.len, &entry.path, ());
            }
            _ => self.tally.specials += 1,
        }
        let found = ScannedEntry { path: entry.path.clone(), is_dir: entry.is_dir(), bytes, group: None };
        self.tree.push(found).map_err(|e| list_failed(&e))
    }

    /// Checks whether the target can hold the entry.
    fn fit(&mut self, entry: &Entry, out: &mut dyn PlanOutput) -> Result<()> {
        let Some(target) = self.request.target else { return Ok(()) };
        if let Some(reason) = target.refuses(entry) {
            note(&mut self.unfit, reason, &entry.path, out);
        } else if let Some(folded) = target.folded(entry.path.as_bytes()) {
            self.folded.push((folded, entry.path.clone())).map_err(|e| list_failed(&e))?;
        }
        Ok(())
    }

    /// Makes the plan after the end of the scan.
    ///
    /// # Errors
    /// The error of reading a spooled list, or that of `out`.
    pub fn finish(self, out: &mut dyn PlanOutput) -> Result<Plan> {
        let Self {
            request, mut tally, mut histogram, mut largest, mut tree, names, folded, mut unfit, ..
        } = self;
        clashes(folded, &mut unfit, out)?;
        let hard_links = {
            let mut file = |name: &HardLinkName, first: &RelPath| {
                tally.file(name.len, name.allocated);
                histogram.add(name.len);
                largest.add(name.len, first, ());
            };
            let mut found = |found: ScannedEntry| tree.push(found).map_err(|e| list_failed(&e));
            links::group(names, request.top, &mut file, &mut found)?
        };
        let mut directories = OpenDirectories::new(request.top);
        let mut splitter = request.split.map(|split| {
            // Directories are listed only if they are empty.
            let entries = tally.entries.saturating_sub(tally.directories);
            let bytes = tally.bytes.saturating_sub(tally.hole_bytes);
            Partitioner::new(split, &self.large_files.into_ranked(), bytes, entries)
        });
        let mut listed = |found: ScannedEntry, out: &mut dyn PlanOutput| match &mut splitter {
            Some(splitter) => splitter.add(found, out),
            None => Ok(()),
        };
        let empty = |path| ScannedEntry { path, is_dir: true, bytes: 0, group: None };
        for found in tree.sorted().map_err(|e| list_failed(&e))? {
            let found = found.map_err(|e| list_failed(&e))?;
            if let Some(path) = directories.add(&found) {
                listed(empty(path), out)?;
            }
            if !found.is_dir {
                listed(found, out)?;
            }
        }
        if let Some(path) = directories.end() {
            listed(empty(path), out)?;
        }
        let parts = splitter.map(|splitter| splitter.end(out)).transpose()?.unwrap_or_default();
        let (largest_directories, widest_directories, deepest_directories) = directories.into_figures();
        let mut unfit: Vec<Unfit> = unfit.into_values().collect();
        unfit.sort_by_key(|one| std::cmp::Reverse(one.count));
        let one = |top: Top| top.into_ranked().pop();
        Ok(Plan {
            tally,
            histogram: histogram.into_buckets(),
            largest_files: largest.into_ranked(),
            largest_directories,
            widest_directories,
            deepest_directories,
            longest_name: one(self.longest_name),
            longest_path: one(self.longest_path),
            hard_links,
            unfit,
            parts,
        })
    }
}

/// Reports names that the target does not distinguish.
fn clashes(
    folded: Sorter<(Vec<u8>, RelPath)>,
    unfit: &mut BTreeMap<Reason, Unfit>,
    out: &mut dyn PlanOutput,
) -> Result<()> {
    let mut before: Option<(Vec<u8>, RelPath)> = None;
    let mut was_clash = false;
    for next in folded.sorted().map_err(|e| list_failed(&e))? {
        let next = next.map_err(|e| list_failed(&e))?;
        let clash = before.as_ref().filter(|before| before.0 == next.0);
        if let Some((_, first)) = clash {
            // The first of a group of clashing names is reported too.
            if !was_clash {
                note(unfit, Reason::Clash, first, out);
            }
            note(unfit, Reason::Clash, &next.1, out);
        }
        was_clash = clash.is_some();
        before = Some(next);
    }
    Ok(())
}

fn note(unfit: &mut BTreeMap<Reason, Unfit>, reason: Reason, path: &RelPath, out: &mut dyn PlanOutput) {
    let new = || Unfit { reason, count: 0, examples: Vec::new() };
    let reported = unfit.entry(reason).or_insert_with(new);
    reported.count += 1;
    if reported.examples.len() < EXAMPLES {
        reported.examples.push(path.clone());
    }
    out.unfit(path);
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
