//! Files of several names: one pass over all such names, sorted by inode.

use std::cmp::Ordering;

use haul_core::{Entry, RelPath, Result};
use haul_spool::Sorter;
use serde::{Deserialize, Serialize};

use crate::order::{Found, Group, tree_order};
use crate::top::Top;
use crate::{HardLinks, data_len, list_failed};

/// One name of a file that has several.
#[derive(Serialize, Deserialize)]
pub(crate) struct Name {
    inode: (u64, u64),
    path: RelPath,
    pub(crate) len: u64,
    pub(crate) allocated: u64,
    nlink: u32,
}

impl Name {
    pub(crate) fn new(entry: &Entry) -> Self {
        let Entry { dev, ino, len, allocated, nlink, .. } = *entry;
        Self { inode: (dev, ino), path: entry.path.clone(), len, allocated, nlink }
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        self.inode.cmp(&other.inode).then_with(|| tree_order(&self.path, &other.path))
    }
}

/// Groups the names by inode. `file` hears of each file once, by its first name, before `found` gets its names.
pub(crate) fn group(
    names: Sorter<Name>,
    most: usize,
    file: &mut dyn FnMut(&Name, &RelPath),
    found: &mut dyn FnMut(Found) -> Result<()>,
) -> Result<HardLinks> {
    let mut links = HardLinks::default();
    let mut largest = Top::new(most);
    let mut number = 0;
    let mut end = |group: Vec<Name>| -> Result<()> {
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
            together = Some(Group { number, names });
        }
        for (at, name) in group.into_iter().enumerate() {
            let bytes = if at == 0 { data_len(name.len, name.allocated) } else { 0 };
            found(Found { path: name.path, is_dir: false, bytes, group: together })?;
        }
        Ok(())
    };
    // The names of one file are held together: file systems allow some 65,000.
    let mut group: Vec<Name> = Vec::new();
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
