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

/// A folder that is to be listed.
pub(super) struct Folder {
    pub(super) path: RelPath,
    pub(super) at: At,
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
