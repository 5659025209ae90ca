//! Staged files, and streams that grow until their length is known.

use std::collections::BTreeSet;

use haul_core::digest::{SliceHasher, slice_count};
use haul_core::entry::{GROWING, Identity};
use haul_core::{ChainingValue, Entry, FileTree, SLICE_LEN};

/// The slices of a file of which some have not arrived.
pub(super) struct StagedSlices {
    pub(super) identity: Identity,
    pub(super) tree: FileTree,
    pub(super) bytes: Vec<u8>,
    /// Bytes that are no holes.
    pub(super) allocated: u64,
    /// The state of a stream.
    pub(super) growth: GrowingStream,
}

/// The state of a stream, besides the slices that count.
#[derive(Default)]
pub(super) struct GrowingStream {
    /// The sink that writes it.
    run: u64,
    /// Slices that an earlier sink has left.
    left: BTreeSet<u32>,
    has_ended: bool,
}

impl StagedSlices {
    /// Prepares for a slice of the entry, which the sink `run` has.
    pub(super) fn grow(&mut self, entry: &Entry, run: u64, index: u32) {
        if !entry.is_stream() {
            return;
        }
        if self.growth.run != run {
            let known = self.tree.known().into_iter().flatten();
            self.growth = GrowingStream { run, left: known.collect(), has_ended: false };
            self.tree = FileTree::new(GROWING);
        }
        if !entry.is_growing() && !self.growth.has_ended {
            self.growth.has_ended = true;
            self.bytes.resize(entry.len as usize, 0);
            self.tree.end_at(entry.len);
            for index in std::mem::take(&mut self.growth.left).range(..slice_count(entry.len) - 1) {
                self.tree.set(*index, self.value_of(*index));
            }
        } else if !self.growth.has_ended {
            let end = (index as usize + 1) * SLICE_LEN as usize;
            self.bytes.resize(end.max(self.bytes.len()), 0);
        }
    }

    /// Whether the slice is there; it counts then.
    pub(super) fn keeps(&mut self, index: u32, value: ChainingValue) -> bool {
        if !self.tree.has(index) {
            if !self.growth.left.contains(&index) || self.value_of(index) != value {
                return false;
            }
            self.tree.set(index, value);
        }
        true
    }

    fn value_of(&self, index: u32) -> ChainingValue {
        let start = index as usize * SLICE_LEN as usize;
        let mut hasher = SliceHasher::new(GROWING, start as u64);
        hasher.update(&self.bytes[start..start + SLICE_LEN as usize]);
        hasher.finish()
    }
}
