//! The work that a walk has still to do.

use std::sync::Arc;

use haul_core::RelPath;
use haul_core::filter::DirRules;
use haul_index::{Recording, Stamp};

use super::lineage::Lineage;
use crate::path::at::{At, Dir};

/// The stack of a walk. Last in, first out: few handles are held.
#[derive(Default)]
pub(super) struct Stack<'a> {
    pub(super) dirs: Vec<Directory>,
    /// Names that were listed, by their directory.
    pub(super) names: Vec<Lookups<'a>>,
}

impl Stack<'_> {
    /// Adds a directory. Every level of a deep tree may have one that waits, so only `most` of them hold a descriptor.
    /// The paths of the others are resolved again.
    pub(super) fn put(&mut self, mut directory: Directory, most: usize) {
        let last = self.dirs.last().and_then(|directory| directory.at.as_ref());
        let is_held =
            last.zip(directory.at.as_ref()).is_some_and(|(last, at)| Arc::ptr_eq(&last.dir, &at.dir));
        directory.at = directory.at.filter(|_| is_held || self.dirs.len() < most);
        self.dirs.push(directory);
    }
}

/// A directory that is to be listed.
pub(super) struct Directory {
    pub(super) path: RelPath,
    /// Its name in its open parent; `None` if too many are held.
    pub(super) at: Option<At>,
    pub(super) stamp: Stamp,
    /// The directory and those above it, if links are followed.
    pub(super) lineage: Option<Arc<Lineage>>,
    /// The filter rules of its parent.
    pub(super) rules_above: DirRules,
}

/// Names in a directory that are to be looked up.
pub(super) struct Lookups<'a> {
    pub(super) path: RelPath,
    pub(super) dir: Arc<Dir>,
    pub(super) names: Vec<Vec<u8>>,
    /// How many names one thread looks up.
    pub(super) most: usize,
    /// The index of the directory that is being written.
    pub(super) record: Option<Arc<Recording<'a>>>,
    /// The directory and those above it, if links are followed.
    pub(super) lineage: Option<Arc<Lineage>>,
    /// The filter rules of the directory.
    pub(super) rules: DirRules,
}

impl<'a> Lookups<'a> {
    pub(super) fn new(
        path: &RelPath,
        dir: Arc<Dir>,
        most: usize,
        record: Option<Arc<Recording<'a>>>,
    ) -> Self {
        let rules = DirRules::default();
        Self { path: path.clone(), dir, names: Vec::new(), most, record, lineage: None, rules }
    }

    /// The same of a directory with this lineage.
    pub(super) fn descending(self, lineage: Option<Arc<Lineage>>) -> Self {
        Self { lineage, ..self }
    }

    /// The same of a directory with these filter rules.
    pub(super) fn with_rules(self, rules: DirRules) -> Self {
        Self { rules, ..self }
    }

    /// Takes the names so far; later names form another part.
    pub(super) fn take(&mut self) -> Self {
        let names = std::mem::take(&mut self.names);
        let (path, dir, record) = (self.path.clone(), self.dir.clone(), self.record.clone());
        let (lineage, rules) = (self.lineage.clone(), self.rules.clone());
        Self { path, dir, names, most: self.most, record, lineage, rules }
    }
}

/// One step of a walk.
pub(super) enum WalkStep<'a> {
    List(Directory),
    Look(Lookups<'a>),
}
