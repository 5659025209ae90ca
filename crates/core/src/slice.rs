//! What moves: batches of slices.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::buffer::Buffer;
use crate::digest::{ChainingValue, PART_LEN, SLICE_LEN, SliceHasher};
use crate::entry::Entry;
use crate::error::Result;

/// Slices in one batch at most; bounds the memory that a batch's description takes.
pub const MAX_BATCH_SLICES: usize = 1024;

/// A contiguous part of one file: the unit of digest, retry and resume. A whole small file is one slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Which of [`Batch::entries`] it belongs to.
    pub entry: u32,
    /// Which slice of the file: it begins at `index` × [`crate::SLICE_LEN`].
    pub index: u32,
    /// Which part of it alone, of [`crate::digest::PART_LEN`] bytes; only of a large file. At the end of a run there are
    /// fewer slices than streams, and parts keep all of them busy.
    pub part: Option<u8>,
}

impl Slice {
    /// All of a slice.
    #[must_use]
    pub fn whole(entry: u32, index: u32) -> Self {
        Self { entry, index, part: None }
    }

    /// Where it begins in its file, in bytes.
    #[must_use]
    pub fn start(self) -> u64 {
        u64::from(self.index) * SLICE_LEN + u64::from(self.part.unwrap_or_default()) * PART_LEN
    }

    /// How long it is in a file of `file_len` bytes.
    #[must_use]
    pub fn len_in(self, file_len: u64) -> u64 {
        let most = if self.part.is_some() { PART_LEN } else { SLICE_LEN };
        file_len.saturating_sub(self.start()).min(most)
    }
}

/// What one stream takes at a time: one slice of a large file, or hundreds of whole small files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The files, with all that the destination needs to commit them.
    pub entries: Vec<Arc<Entry>>,
    /// The slices, in the order in which their bytes follow each other.
    pub slices: Vec<Slice>,
    /// Whether they were sent before, and what became of that is not known: they may be there.
    pub again: bool,
}

impl Batch {
    /// The entry and the slice at position `at`; `None` out of range.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<(&Arc<Entry>, Slice)> {
        let slice = *self.slices.get(at)?;
        Some((self.entries.get(slice.entry as usize)?, slice))
    }

    /// Its slices with their entries. A slice that names no entry ends it; decoders check that there is none.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<Entry>, Slice)> {
        (0..self.slices.len()).map_while(|at| self.get(at))
    }
}

/// A run of bytes that are no hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// Where it begins, in bytes from the beginning of the slice.
    pub start: u32,
    /// How long it is, in bytes.
    pub len: u32,
    /// The destination has it, in the file that is to be replaced ([`crate::delta`]): it was not sent. Only of a slice
    /// of a large file that is alone in its batch.
    pub same: bool,
}

impl Extent {
    /// A run of data that is sent.
    #[must_use]
    pub fn data(start: u32, len: u32) -> Self {
        Self { start, len, same: false }
    }
}

/// What was read of one slice: where its data lies, and the proof of all of it, holes included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceData {
    /// The runs of data, ascending, not overlapping; what is between them is a hole.
    pub extents: Vec<Extent>,
    /// The proof of the slice, taken at the source.
    pub value: ChainingValue,
}

impl SliceData {
    /// Bytes of data of it that are sent.
    #[must_use]
    pub fn data_len(&self) -> u64 {
        self.len_of(false)
    }

    /// Bytes of data of it that the destination has.
    #[must_use]
    pub fn same_len(&self) -> u64 {
        self.len_of(true)
    }

    /// Whether `content`, the data of all its extents, is what the source hashed of this slice of `entry`.
    #[must_use]
    pub fn proves(&self, entry: &Entry, slice: Slice, content: &[u8]) -> bool {
        let len = slice.len_in(entry.len);
        let mut hasher = SliceHasher::new(entry.len, slice.start());
        let (mut at, mut used) = (0_u64, 0_usize);
        for extent in &self.extents {
            let Some(hole) = u64::from(extent.start).checked_sub(at) else { return false };
            hasher.update_zeros(hole);
            let Some(bytes) = content.get(used..used + extent.len as usize) else { return false };
            hasher.update(bytes);
            used += extent.len as usize;
            at = u64::from(extent.start) + u64::from(extent.len);
        }
        let Some(rest) = len.checked_sub(at) else { return false };
        hasher.update_zeros(rest);
        hasher.finish() == self.value
    }

    fn len_of(&self, same: bool) -> u64 {
        self.extents.iter().filter(|extent| extent.same == same).map(|extent| u64::from(extent.len)).sum()
    }
}

/// A batch with its content. Bytes cannot lose their proof: both are here or neither.
#[must_use]
pub struct BatchData {
    /// What the content is of.
    pub batch: Arc<Batch>,
    /// One for each slice: what was read, or why it could not be.
    pub slices: Vec<Result<SliceData>>,
    /// The data of all extents of all slices that were read and are sent, one after the other.
    pub content: Buffer,
    /// Whether the content has stayed in the memory of the process that hashed it. Content from a wire has not:
    /// a sink checks it against its proof before it counts.
    pub at_hand: bool,
}
