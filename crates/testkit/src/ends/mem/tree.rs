//! The tree: names, inodes, and the staged slices of files that are not complete.

use std::collections::BTreeMap;
use std::sync::Arc;

use haul_core::sync::{Mutex, MutexGuard};
use haul_core::{Entry, RelPath, Timestamp};

use super::staged::StagedSlices;

/// An entry with its content. Several names can refer to it.
#[derive(Clone)]
pub(super) struct Inode {
    /// Its path is that of the first name.
    pub(super) entry: Entry,
    pub(super) content: Arc<Vec<u8>>,
}

#[derive(Default)]
pub(super) struct MemTreeState {
    pub(super) names: BTreeMap<RelPath, u64>,
    pub(super) inodes: BTreeMap<u64, Inode>,
    pub(super) staged: BTreeMap<RelPath, StagedSlices>,
    last: u64,
}

impl MemTreeState {
    pub(super) fn get(&self, path: &RelPath) -> Option<&Inode> {
        self.inodes.get(self.names.get(path)?)
    }

    pub(super) fn get_mut(&mut self, path: &RelPath) -> Option<&mut Inode> {
        self.inodes.get_mut(self.names.get(path)?)
    }

    /// The entry at `path` with its inode number and its count of names.
    pub(super) fn entry(&self, path: &RelPath) -> Option<Entry> {
        let ino = *self.names.get(path)?;
        let inode = self.inodes.get(&ino)?;
        let nlink = self.names.values().filter(|other| **other == ino).count() as u32;
        Some(Entry { path: path.clone(), dev: 1, ino, nlink, ..inode.entry.clone() })
    }

    pub(super) fn insert(&mut self, entry: Entry, content: Vec<u8>) {
        self.remove(&entry.path.clone());
        self.last += 1;
        self.names.insert(entry.path.clone(), self.last);
        self.inodes.insert(self.last, Inode { entry, content: Arc::new(content) });
    }

    pub(super) fn link(&mut self, path: &RelPath, to: &RelPath) -> bool {
        let Some(ino) = self.names.get(to).copied() else { return false };
        if self.names.get(path) != Some(&ino) {
            self.remove(path);
            self.names.insert(path.clone(), ino);
        }
        true
    }

    pub(super) fn remove(&mut self, path: &RelPath) {
        if let Some(ino) = self.names.remove(path)
            && !self.names.values().any(|other| *other == ino)
        {
            self.inodes.remove(&ino);
        }
    }

    /// Whether `path` names a directory with entries in it.
    pub(super) fn has_children(&self, path: &RelPath) -> bool {
        self.names.keys().any(|name| name.parent().as_ref() == Some(path))
    }

    /// Creates the missing directories above `path`.
    pub(super) fn make_parents(&mut self, path: &RelPath) {
        let mut above = path.parent();
        while let Some(dir) = above {
            above = dir.parent();
            if !self.names.contains_key(&dir) {
                let entry = Entry::new(dir, haul_core::EntryKind::Dir, 0);
                self.insert(Entry { mode: 0o755, ..entry }, Vec::new());
            }
        }
    }
}

/// A file tree in memory. At first it has no entry, not even a root.
#[derive(Default)]
pub struct MemTree {
    state: Mutex<MemTreeState>,
}

impl MemTree {
    /// A tree without a root.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, MemTreeState> {
        self.state.lock()
    }

    /// Creates or replaces an entry. Missing directories above it are created.
    pub fn put(&self, entry: &Entry, content: &[u8]) {
        let mut state = self.state();
        state.make_parents(&entry.path);
        let is_dir = state.get(&entry.path).is_some_and(|inode| inode.entry.is_dir());
        if let Some(there) = state.get_mut(&entry.path).filter(|_| is_dir && entry.is_dir()) {
            there.entry = entry.clone();
            return;
        }
        state.insert(entry.clone(), content.to_vec());
    }

    /// Makes `path` a further name of the entry at `to`.
    ///
    /// # Panics
    /// If there is no entry at `to`.
    pub fn link(&self, path: &RelPath, to: &RelPath) {
        assert!(self.state().link(path, to), "no entry at {to}");
    }

    /// Removes a name and everything below it.
    pub fn remove(&self, path: &RelPath) {
        let mut state = self.state();
        let below = [path.as_bytes(), b"/"].concat();
        let is_in = |name: &RelPath| path.is_root() || name.as_bytes().starts_with(&below);
        let names: Vec<_> = state.names.keys().filter(|name| *name == path || is_in(name)).cloned().collect();
        names.iter().for_each(|name| state.remove(name));
    }

    /// The entry at `path`, with the content of a file.
    #[must_use]
    pub fn look(&self, path: &RelPath) -> Option<(Entry, Vec<u8>)> {
        let state = self.state();
        Some((state.entry(path)?, state.get(path)?.content.to_vec()))
    }

    /// All names, the root included, in order.
    #[must_use]
    pub fn names(&self) -> Vec<RelPath> {
        self.state().names.keys().cloned().collect()
    }

    /// Files of which some slices are staged.
    #[must_use]
    pub fn staged(&self) -> Vec<RelPath> {
        self.state().staged.keys().cloned().collect()
    }

    /// Sets the modification time of the entry at `path`, as another program does.
    pub fn touch(&self, path: &RelPath, mtime: Timestamp) {
        if let Some(inode) = self.state().get_mut(path) {
            inode.entry.mtime = mtime;
        }
    }
}
