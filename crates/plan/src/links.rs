//! Groups the names of hard-linked files, in one pass over all such names sorted by inode.

use std::cmp::Ordering;

use haul_core::{Entry, RelPath, Result};
use haul_spool::Sorter;
use serde::{Deserialize, Serialize};

use crate::errors::list_failed;
use crate::order::{HardLinkGroup, ScannedEntry, tree_order};
use crate::ranked::RankedEntry;
use crate::tally::data_len;
use crate::top::Top;

/// Files with more than one name in the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkedFiles {
    /// Number of files.
    pub files: u64,
    /// Number of their names in the tree.
    pub names: u64,
    /// Additional bytes if each name became a separate file.
    pub saved_bytes: u64,
    /// Files with names outside of the tree, which a copy does not link.
    pub outside: u64,
    /// The files that save most, each by its first name.
    pub largest: Vec<RankedEntry>,
}

/// One name of a hard-linked file.
#[derive(Serialize, Deserialize)]
pub(crate) struct HardLinkName {
    inode: (u64, u64),
    path: RelPath,
    pub(crate) len: u64,
    pub(crate) allocated: u64,
    nlink: u32,
}

impl HardLinkName {
    pub(crate) fn new(entry: &Entry) -> Self {
        let Entry { dev, ino, len, allocated, nlink, .. } = *entry;
        Self { inode: (dev, ino), path: entry.path.clone(), len, allocated, nlink }
    }
}

impl PartialEq for HardLinkName {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for HardLinkName {}

impl PartialOrd for HardLinkName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for HardLinkName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.inode.cmp(&other.inode).then_with(|| tree_order(&self.path, &other.path))
    }
}

/// Groups the names by inode. `file` receives each file once, by its first name, before `found` receives its names.
pub(crate) fn group(
    names: Sorter<HardLinkName>,
    most: usize,
    file: &mut dyn FnMut(&HardLinkName, &RelPath),
    found: &mut dyn FnMut(ScannedEntry) -> Result<()>,
) -> Result<LinkedFiles> {
    let mut links = LinkedFiles::default();
    let mut largest = Top::new(most);
    let mut number = 0;
    let mut end = |group: Vec<HardLinkName>| -> Result<()> {
        let Some(first) = group.first() else { return Ok(()) };
        file(first, &first.path);
        let names = group.len() as u64;
        if u64::from(first.nlink) > names {
            links.outside += 1;
        }
        let mut together = None;
        if names > 1 {
            let saved = first.len.saturating_mul(names - 1);
            links.files += 1;
            links.names += names;
            links.saved_bytes = links.saved_bytes.saturating_add(saved);
            largest.add(saved, &first.path, ());
            number += 1;
            together = Some(HardLinkGroup { number, names });
        }
        for (at, name) in group.into_iter().enumerate() {
            let bytes = if at == 0 { data_len(name.len, name.allocated) } else { 0 };
            found(ScannedEntry { path: name.path, is_dir: false, bytes, group: together })?;
        }
        Ok(())
    };
    // All names of one file are in memory; file systems allow some 65,000.
    let mut group: Vec<HardLinkName> = Vec::new();
    for name in names.sorted().map_err(|e| list_failed(&e))? {
        let name = name.map_err(|e| list_failed(&e))?;
        if group.first().is_some_and(|first| first.inode != name.inode) {
            end(std::mem::take(&mut group))?;
        }
        group.push(name);
    }
    end(group)?;
    links.largest = largest.into_ranked();
    Ok(links)
}
