//! What a walk has yet to look at.

use std::sync::Arc;

use haul_core::RelPath;
use haul_index::{Recording, Stamp};

use super::super::root::{At, Dir};

/// What is to be looked at. Last in, first out: handles that are held stay few.
#[derive(Default)]
pub(super) struct Stack<'a> {
    pub(super) dirs: Vec<Folder>,
    /// Names that were listed, by the folder that they are in.
    pub(super) names: Vec<Part<'a>>,
}

impl Stack<'_> {
    /// Adds a folder. At every level of a deep tree there may be one that waits, so not all of them hold a descriptor: where
    /// `most` do, the way to this one is gone again.
    pub(super) fn put(&mut self, path: RelPath, at: At, stamp: Stamp, most: usize) {
        let last = self.dirs.last().and_then(|folder| folder.at.as_ref());
        let is_held = last.is_some_and(|last| Arc::ptr_eq(&last.dir, &at.dir));
        let at = (is_held || self.dirs.len() < most).then_some(at);
        self.dirs.push(Folder { path, at, stamp });
    }
}

/// A folder that is to be listed.
pub(super) struct Folder {
    pub(super) path: RelPath,
    /// Its name in the folder that it is in, held open; `None` where too many are.
    pub(super) at: Option<At>,
    pub(super) stamp: Stamp,
}

/// Names in a folder that are to be looked at.
pub(super) struct Part<'a> {
    pub(super) path: RelPath,
    pub(super) dir: Arc<Dir>,
    pub(super) names: Vec<Vec<u8>>,
    /// How many are looked at by one thread.
    pub(super) most: usize,
    /// Where what is in the folder is remembered.
    pub(super) record: Option<Arc<Recording<'a>>>,
}

impl<'a> Part<'a> {
    pub(super) fn new(
        path: &RelPath,
        dir: Arc<Dir>,
        most: usize,
        record: Option<Arc<Recording<'a>>>,
    ) -> Self {
        Self { path: path.clone(), dir, names: Vec::new(), most, record }
    }

    /// The names so far; those that come later are another part.
    pub(super) fn take(&mut self) -> Self {
        let names = std::mem::take(&mut self.names);
        let (path, dir, record) = (self.path.clone(), self.dir.clone(), self.record.clone());
        Self { path, dir, names, most: self.most, record }
    }
}

/// One step of a walk.
pub(super) enum Step<'a> {
    List(Folder),
    Look(Part<'a>),
}
