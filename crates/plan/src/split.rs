//! Splits a tree into partitions: lists of paths that together contain every entry once.
//!
//! The names of one file stay in one partition, so that a copy of it can link them. Paths are taken in tree order, in
//! runs that stay together, so that a partition consists mostly of whole directories.

use std::collections::{HashMap, HashSet};

use haul_core::{RelPath, Result};

use crate::order::{HardLinkGroup, ScannedEntry};
use crate::output::PlanOutput;
use crate::ranked::RankedEntry;

/// How a tree is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Into so many partitions with similar shares of bytes and of entries.
    Count(usize),
    /// Into as many partitions as needed. None exceeds these limits, except for a single larger file and for further
    /// names of its files.
    Limit {
        /// Bytes in a partition.
        bytes: Option<u64>,
        /// Entries in a partition.
        entries: Option<u64>,
    },
}

/// The size of one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// Entries in its list.
    pub entries: u64,
    /// Bytes in their files, without holes; a hard-linked file counts once.
    pub bytes: u64,
}

/// A file of more than this fraction of a partition is assigned before the others.
const LARGE: u64 = 64;
/// The longest run of entries, as a fraction of a partition, and as a number.
const RUN: u64 = 64;
const RUN_ENTRIES: usize = 4096;

/// Assigns the entries.
pub(crate) enum Partitioner {
    Balanced(Balanced),
    Filling(Filling),
}

impl Partitioner {
    /// `largest` are the largest files with one name, at least [`wanted`] many; `bytes` and `entries` are those of the
    /// whole tree.
    pub(crate) fn new(split: Split, largest: &[RankedEntry], bytes: u64, entries: u64) -> Self {
        match split {
            Split::Count(count) => Self::Balanced(Balanced::new(count.max(1), largest, bytes, entries)),
            Split::Limit { bytes, entries } => {
                Self::Filling(Filling::new(bytes.unwrap_or(u64::MAX), entries.unwrap_or(u64::MAX)))
            }
        }
    }

    /// Assigns an entry that is to be listed.
    pub(crate) fn add(&mut self, found: ScannedEntry, out: &mut dyn PlanOutput) -> Result<()> {
        match self {
            Self::Balanced(balanced) => balanced.add(found, out),
            Self::Filling(filling) => filling.add(&found, out),
        }
    }

    /// The partitions, after the last entry.
    pub(crate) fn end(self, out: &mut dyn PlanOutput) -> Result<Vec<Partition>> {
        match self {
            Self::Balanced(mut balanced) => {
                balanced.place(out)?;
                Ok(balanced.parts)
            }
            Self::Filling(filling) => Ok(filling.parts),
        }
    }
}

/// How many of the largest files must be known before the tree is split.
pub(crate) fn wanted(split: Option<Split>) -> usize {
    match split {
        Some(Split::Count(count)) => count.saturating_mul(LARGE as usize),
        Some(Split::Limit { .. }) | None => 0,
    }
}

/// The partition of each file of which not all names were seen, and how many are still to come.
#[derive(Default)]
struct OpenGroups(HashMap<u64, (usize, u64)>);

impl OpenGroups {
    /// The partition of a further name.
    fn known(&mut self, group: HardLinkGroup) -> Option<usize> {
        let (part, left) = self.0.get_mut(&group.number)?;
        let part = *part;
        *left -= 1;
        if *left == 0 {
            self.0.remove(&group.number);
        }
        Some(part)
    }

    fn learn(&mut self, group: HardLinkGroup, part: usize) {
        self.0.insert(group.number, (part, group.names - 1));
    }
}

/// Assigns the large files first, each to the emptiest partition; then runs of the others in tree order, each to the
/// partition that is least full in bytes or entries, whichever share is larger.
pub(crate) struct Balanced {
    parts: Vec<Partition>,
    bytes: u64,
    entries: u64,
    large_files: HashMap<RelPath, usize>,
    groups: OpenGroups,
    /// The run that is not assigned yet.
    run: Vec<ScannedEntry>,
    run_bytes: u64,
    /// The hard-linked files in it.
    pending: HashSet<u64>,
}

impl Balanced {
    fn new(count: usize, largest: &[RankedEntry], bytes: u64, entries: u64) -> Self {
        let (bytes, entries) = (bytes.max(1), entries.max(1));
        let parts = vec![Partition::default(); count];
        let groups = OpenGroups::default();
        let (large_files, run, pending) = (HashMap::new(), Vec::new(), HashSet::new());
        let mut balanced = Self { parts, bytes, entries, large_files, groups, run, run_bytes: 0, pending };
        let large = |file: &&RankedEntry| file.figure > 0 && file.figure >= bytes / (count as u64 * LARGE);
        for file in largest.iter().take_while(large) {
            let part = balanced.emptiest(file.figure, 1);
            balanced.put(part, file.figure);
            balanced.large_files.insert(file.path.clone(), part);
        }
        balanced
    }

    /// The partition that is least full after so much is added to it.
    fn emptiest(&self, bytes: u64, entries: u64) -> usize {
        let fill = |part: &Partition| {
            let bytes = (part.bytes + bytes) as f64 / self.bytes as f64;
            let entries = (part.entries + entries) as f64 / self.entries as f64;
            (bytes.max(entries), bytes + entries)
        };
        let fills = self.parts.iter().map(fill).enumerate();
        let least = fills.min_by(|(_, a), (_, b)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        least.map_or(0, |(at, _)| at)
    }

    fn put(&mut self, part: usize, bytes: u64) {
        self.parts[part].entries += 1;
        self.parts[part].bytes += bytes;
    }

    fn add(&mut self, found: ScannedEntry, out: &mut dyn PlanOutput) -> Result<()> {
        if let Some(part) = self.large_files.remove(&found.path) {
            return out.part(part, &found.path);
        }
        if let Some(group) = found.group {
            // The run that holds the first name must be assigned by now.
            if self.pending.contains(&group.number) {
                self.place(out)?;
            }
            if let Some(part) = self.groups.known(group) {
                self.put(part, found.bytes);
                return out.part(part, &found.path);
            }
            self.pending.insert(group.number);
        }
        let count = self.parts.len() as u64;
        self.run_bytes += found.bytes;
        self.run.push(found);
        let entries = self.run.len();
        let full = entries >= RUN_ENTRIES
            || entries as u64 >= self.entries / (count * RUN)
            || self.run_bytes >= self.bytes / (count * RUN);
        if full { self.place(out) } else { Ok(()) }
    }

    /// Assigns the run.
    fn place(&mut self, out: &mut dyn PlanOutput) -> Result<()> {
        let run = std::mem::take(&mut self.run);
        let part = self.emptiest(self.run_bytes, run.len() as u64);
        self.run_bytes = 0;
        self.pending.clear();
        for found in run {
            self.put(part, found.bytes);
            if let Some(group) = found.group {
                self.groups.learn(group, part);
            }
            out.part(part, &found.path)?;
        }
        Ok(())
    }
}

/// Fills one partition after the other; a file larger than a partition gets one of its own.
pub(crate) struct Filling {
    parts: Vec<Partition>,
    bytes: u64,
    entries: u64,
    /// The partition that is being filled.
    at: Option<usize>,
    groups: OpenGroups,
}

impl Filling {
    fn new(bytes: u64, entries: u64) -> Self {
        let (bytes, entries) = (bytes.max(1), entries.max(1));
        Self { parts: Vec::new(), bytes, entries, at: None, groups: OpenGroups::default() }
    }

    fn open(&mut self) -> usize {
        self.parts.push(Partition::default());
        self.parts.len() - 1
    }

    fn add(&mut self, found: &ScannedEntry, out: &mut dyn PlanOutput) -> Result<()> {
        let known = found.group.and_then(|group| self.groups.known(group));
        let part = match (known, self.at) {
            (Some(part), _) => part,
            (None, _) if found.bytes > self.bytes => self.open(),
            (None, Some(at)) if self.has_room(at, found.bytes) => at,
            (None, _) => {
                let part = self.open();
                self.at = Some(part);
                part
            }
        };
        if let (None, Some(group)) = (known, found.group) {
            self.groups.learn(group, part);
        }
        self.parts[part].entries += 1;
        self.parts[part].bytes += found.bytes;
        out.part(part, &found.path)
    }

    fn has_room(&self, part: usize, bytes: u64) -> bool {
        let part = self.parts[part];
        part.entries < self.entries && part.bytes.saturating_add(bytes) <= self.bytes
    }
}
