//! The unit of transfer: batches of slices.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::buffer::Buffer;
use crate::digest::{ChainingValue, PART_LEN, SLICE_LEN, SliceHasher};
use crate::entry::Entry;
use crate::error::Result;

/// The most slices in one batch; it bounds the memory for the description of a batch.
pub const MAX_BATCH_SLICES: usize = 1024;

/// A contiguous range of one file: the unit of digest, retry and resume. A whole small file is one slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// The position of its file in [`Batch::entries`].
    pub entry: u32,
    /// The number of the slice: it begins at `index` × [`crate::SLICE_LEN`].
    pub index: u32,
    /// The number of a part of [`crate::digest::PART_LEN`] bytes, if only that part is meant; large files only. At the
    /// end of a run there are fewer slices than connections, and parts keep all connections busy. The stream of a pipe
    /// passes in parts: a program takes it in order, and a part on a slow connection delays it less than a slice.
    pub part: Option<u8>,
}

impl Slice {
    /// A whole slice.
    #[must_use]
    pub fn whole(entry: u32, index: u32) -> Self {
        Self { entry, index, part: None }
    }

    /// The offset in its file, in bytes.
    #[must_use]
    pub fn start(self) -> u64 {
        u64::from(self.index) * SLICE_LEN + u64::from(self.part.unwrap_or_default()) * PART_LEN
    }

    /// Its length in a file of `file_len` bytes; 0 beyond the end. A file of one slice has no parts.
    #[must_use]
    pub fn len_in(self, file_len: u64) -> u64 {
        let most = match self.part {
            None => SLICE_LEN,
            Some(_) if file_len > SLICE_LEN => PART_LEN,
            Some(_) => 0,
        };
        file_len.saturating_sub(self.start()).min(most)
    }
}

/// The content of one request: one slice of a large file, or hundreds of whole small files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The files, with all metadata that the destination needs to commit them.
    pub entries: Vec<Arc<Entry>>,
    /// The slices, in the order of their bytes in the content.
    pub slices: Vec<Slice>,
    /// Whether they were sent before without an answer, so that the destination may have them.
    pub again: bool,
}

impl Batch {
    /// The entry and the slice at position `at`; `None` out of range.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<(&Arc<Entry>, Slice)> {
        let slice = *self.slices.get(at)?;
        Some((self.entries.get(slice.entry as usize)?, slice))
    }

    /// The same slices of a stream that has ended with `len` bytes. The only slice of a short stream has no parts, as its
    /// proof is a root hash: the first part becomes the whole slice, and the others are behind the end.
    #[must_use]
    pub fn ended_at(&self, len: u64) -> Self {
        let ended = |entry: &Arc<Entry>| Arc::new(Entry { len, allocated: len, ..Entry::clone(entry) });
        let mut batch = Self { entries: self.entries.iter().map(ended).collect(), ..self.clone() };
        if len <= SLICE_LEN {
            for slice in batch.slices.iter_mut().filter(|slice| slice.start() == 0) {
                slice.part = None;
            }
        }
        batch
    }

    /// The slices with their entries. A slice without an entry ends the iteration; decoders refuse such a batch.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<Entry>, Slice)> {
        (0..self.slices.len()).map_while(|at| self.get(at))
    }
}

/// A run of data: bytes that are not in a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// The offset in the slice, in bytes.
    pub start: u32,
    /// The length in bytes.
    pub len: u32,
    /// The destination has these bytes in the file that is to be replaced ([`crate::delta`]), so they were not sent.
    /// Only in a batch of one slice of a large file.
    pub same: bool,
}

impl Extent {
    /// A run of data that was sent.
    #[must_use]
    pub fn data(start: u32, len: u32) -> Self {
        Self { start, len, same: false }
    }
}

/// The result of reading one slice: its runs of data, and the proof of the whole slice, holes included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceData {
    /// The runs of data, ascending and not overlapping; the gaps are holes.
    pub extents: Vec<Extent>,
    /// The proof of the slice, computed at the source.
    pub value: ChainingValue,
}

impl SliceData {
    /// The bytes of data that were sent.
    #[must_use]
    pub fn data_len(&self) -> u64 {
        self.len_of(false)
    }

    /// The bytes of data that the destination has.
    #[must_use]
    pub fn same_len(&self) -> u64 {
        self.len_of(true)
    }

    /// Whether `content`, the data of all extents, has the hash that the source computed for this slice of `entry`.
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

/// A batch with its content. One type holds the bytes and their proofs, so neither can be lost alone.
#[must_use]
pub struct BatchData {
    /// The description of the content.
    pub batch: Arc<Batch>,
    /// One result for each slice, in order.
    pub slices: Vec<Result<SliceData>>,
    /// The data of all extents that were read and sent, of all slices in order.
    pub content: Buffer,
    /// Whether the content has stayed in the memory of the process that hashed it. A sink verifies other content, which
    /// came over a connection, against its proof.
    pub at_hand: bool,
}
