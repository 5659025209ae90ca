//! Cutting a tree into parts, each a list of paths that together name everything in it once.
//!
//! Names of one file stay in one part, so that a copy of that part can link them. Paths come in the order of the tree
//! and runs of them stay together, so that a part is mostly whole folders.

use std::collections::{HashMap, HashSet};

use haul_core::{RelPath, Result};

use crate::order::{Found, Group};
use crate::{Output, Ranked};

/// How a tree is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Into so many parts, each with about the same share of bytes and of entries.
    Count(usize),
    /// Into as many parts as it takes: none holds more than these, but for a single file that is larger, and for
    /// further names of files that it holds.
    Limit {
        /// Bytes in a part.
        bytes: Option<u64>,
        /// Entries in a part.
        entries: Option<u64>,
    },
}

/// What is in one part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Entries in its list.
    pub entries: u64,
    /// Bytes in their files, without holes; one of several names counts once.
    pub bytes: u64,
}

/// A file of more than this share of a part finds its place before the others do.
const LARGE: u64 = 64;
/// A run of entries is at most this share of a part, and so long.
const RUN: u64 = 64;
const RUN_ENTRIES: usize = 4096;

/// Deals out the entries.
pub(crate) enum Splitter {
    Balanced(Balanced),
    Filling(Filling),
}

impl Splitter {
    /// `largest` are the largest files of one name by what is in them, of which [`wanted`] many suffice; `bytes` and `entries` are those
    /// of the whole tree.
    pub(crate) fn new(split: Split, largest: &[Ranked], bytes: u64, entries: u64) -> Self {
        match split {
            Split::Count(count) => Self::Balanced(Balanced::new(count.max(1), largest, bytes, entries)),
            Split::Limit { bytes, entries } => {
                Self::Filling(Filling::new(bytes.unwrap_or(u64::MAX), entries.unwrap_or(u64::MAX)))
            }
        }
    }

    /// Takes an entry that is a part of the lists.
    pub(crate) fn add(&mut self, found: Found, out: &mut dyn Output) -> Result<()> {
        match self {
            Self::Balanced(balanced) => balanced.add(found, out),
            Self::Filling(filling) => filling.add(&found, out),
        }
    }

    /// The parts, once all entries are in.
    pub(crate) fn end(self, out: &mut dyn Output) -> Result<Vec<Part>> {
        match self {
            Self::Balanced(mut balanced) => {
                balanced.place(out)?;
                Ok(balanced.parts)
            }
            Self::Filling(filling) => Ok(filling.parts),
        }
    }
}

/// How many of the largest files are to be known before the tree is cut.
pub(crate) fn wanted(split: Option<Split>) -> usize {
    match split {
        Some(Split::Count(count)) => count.saturating_mul(LARGE as usize),
        Some(Split::Limit { .. }) | None => 0,
    }
}

/// Where files are of which not all names were seen: the part, and how many are still to come.
#[derive(Default)]
struct Groups(HashMap<u64, (usize, u64)>);

impl Groups {
    /// The part of a further name.
    fn known(&mut self, group: Group) -> Option<usize> {
        let (part, left) = self.0.get_mut(&group.number)?;
        let part = *part;
        *left -= 1;
        if *left == 0 {
            self.0.remove(&group.number);
        }
        Some(part)
    }

    fn learn(&mut self, group: Group, part: usize) {
        self.0.insert(group.number, (part, group.names - 1));
    }
}

/// The large files first, the largest to the emptiest part; then runs of the rest in their order, each to the part that is
/// the least full, in bytes or in entries, whatever is more.
pub(crate) struct Balanced {
    parts: Vec<Part>,
    bytes: u64,
    entries: u64,
    large_files: HashMap<RelPath, usize>,
    groups: Groups,
    /// The run that has no part yet.
    run: Vec<Found>,
    run_bytes: u64,
    /// The files of several names in it.
    pending: HashSet<u64>,
}

impl Balanced {
    fn new(count: usize, largest: &[Ranked], bytes: u64, entries: u64) -> Self {
        let (bytes, entries) = (bytes.max(1), entries.max(1));
        let parts = vec![Part::default(); count];
        let groups = Groups::default();
        let (large_files, run, pending) = (HashMap::new(), Vec::new(), HashSet::new());
        let mut balanced = Self { parts, bytes, entries, large_files, groups, run, run_bytes: 0, pending };
        let large = |file: &&Ranked| file.figure > 0 && file.figure >= bytes / (count as u64 * LARGE);
        for file in largest.iter().take_while(large) {
            let part = balanced.emptiest(file.figure, 1);
            balanced.put(part, file.figure);
            balanced.large_files.insert(file.path.clone(), part);
        }
        balanced
    }

    /// The part that is the least full once so much is added to it.
    fn emptiest(&self, bytes: u64, entries: u64) -> usize {
        let fill = |part: &Part| {
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

    fn add(&mut self, found: Found, out: &mut dyn Output) -> Result<()> {
        if let Some(part) = self.large_files.remove(&found.path) {
            return out.part(part, &found.path);
        }
        if let Some(group) = found.group {
            // The run that holds the first name must have its part by now.
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

    /// Gives the run its part.
    fn place(&mut self, out: &mut dyn Output) -> Result<()> {
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

/// One part after the other; a file that is larger than a part gets one of its own meanwhile.
pub(crate) struct Filling {
    parts: Vec<Part>,
    bytes: u64,
    entries: u64,
    /// The part that is being filled.
    at: Option<usize>,
    groups: Groups,
}

impl Filling {
    fn new(bytes: u64, entries: u64) -> Self {
        let (bytes, entries) = (bytes.max(1), entries.max(1));
        Self { parts: Vec::new(), bytes, entries, at: None, groups: Groups::default() }
    }

    fn open(&mut self) -> usize {
        self.parts.push(Part::default());
        self.parts.len() - 1
    }

    fn add(&mut self, found: &Found, out: &mut dyn Output) -> Result<()> {
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
