//! Assembles a part of an upload from slices that arrive in any order.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use haul_core::{SLICE_LEN, SliceData};
use haul_object::Payload;
use haul_object::client::joined_crc64;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The content of a slice of `len` bytes with its holes as zeros, without copying.
pub(super) fn blocks(len: u64, data: &SliceData, content: &Bytes) -> Vec<Bytes> {
    let mut blocks = Vec::with_capacity(data.extents.len());
    let zeros = |mut len: u64, blocks: &mut Vec<Bytes>| {
        while len > 0 {
            let some = len.min(ZEROS.len() as u64);
            blocks.push(Bytes::from_static(&ZEROS[..some as usize]));
            len -= some;
        }
    };
    let (mut at, mut used) = (0, 0);
    for extent in &data.extents {
        zeros(u64::from(extent.start).saturating_sub(at), &mut blocks);
        let end = (used + extent.len as usize).min(content.len());
        blocks.push(content.slice(used.min(end)..end));
        used = end;
        at = u64::from(extent.start) + u64::from(extent.len);
    }
    zeros(len.saturating_sub(at), &mut blocks);
    blocks
}

/// How many slices may wait in memory for the others of their parts; further slices go to files.
pub(super) struct MemorySlots {
    held: AtomicUsize,
    most: usize,
}

impl MemorySlots {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { held: AtomicUsize::new(0), most })
    }

    fn take(self: &Arc<Self>) -> Option<MemorySlot> {
        if self.held.fetch_add(1, Ordering::Relaxed) < self.most {
            return Some(MemorySlot(Arc::clone(self)));
        }
        self.held.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

struct MemorySlot(Arc<MemorySlots>);

impl Drop for MemorySlot {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One slice.
struct HeldSlice {
    /// The content, if it is in memory and not in the file.
    memory: Option<(Vec<Bytes>, Option<MemorySlot>)>,
    crc64: u64,
    len: u64,
}

/// A part that is being assembled.
pub(super) struct UploadPart {
    pieces: Vec<Option<HeldSlice>>,
    /// For the slices that do not fit into memory.
    file: Option<File>,
}

impl UploadPart {
    /// A part of so many slices.
    pub(super) fn new(slices: u32) -> Self {
        Self { pieces: (0..slices).map(|_| None).collect(), file: None }
    }

    /// Takes the slice at position `at`. The slice that completes the part always stays in memory.
    ///
    /// # Errors
    /// The error of writing the file.
    pub(super) fn put(&mut self, at: usize, blocks: Vec<Bytes>, slots: &Arc<MemorySlots>) -> io::Result<()> {
        let payload = Payload::from_blocks(blocks.clone());
        let (crc64, len) = (payload.crc64(), payload.len());
        let is_last = self.pieces.iter().enumerate().all(|(other, piece)| other == at || piece.is_some());
        let slot = if is_last { None } else { slots.take() };
        let memory = if is_last || slot.is_some() {
            Some((blocks, slot))
        } else {
            self.spill(at, &blocks)?;
            None
        };
        if let Some(place) = self.pieces.get_mut(at) {
            *place = Some(HeldSlice { memory, crc64, len });
        }
        Ok(())
    }

    /// Drops a slice that will come again.
    pub(super) fn forget(&mut self, at: usize) {
        if let Some(place) = self.pieces.get_mut(at) {
            *place = None;
        }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.pieces.iter().all(Option::is_some)
    }

    /// The assembled part.
    ///
    /// # Errors
    /// The error of writing the remaining slices to the file.
    pub(super) fn payload(&mut self) -> io::Result<Payload> {
        if self.file.is_none() {
            let pieces = self.pieces.iter().flatten().filter_map(|piece| piece.memory.as_ref());
            return Ok(Payload::from_blocks(pieces.flat_map(|(blocks, _)| blocks.clone()).collect()));
        }
        let mut late = Vec::new();
        for (at, piece) in self.pieces.iter_mut().enumerate() {
            late.extend(piece.as_mut().and_then(|piece| piece.memory.take()).map(|(blocks, _)| (at, blocks)));
        }
        for (at, blocks) in late {
            self.spill(at, &blocks)?;
        }
        let sums: Vec<(u64, u64)> =
            self.pieces.iter().flatten().map(|piece| (piece.crc64, piece.len)).collect();
        let len = sums.iter().map(|(_, len)| len).sum();
        let file = self.file.as_ref().ok_or_else(|| io::Error::other("the file is gone"))?.try_clone()?;
        Ok(Payload::from_file(file, len, joined_crc64(sums)))
    }

    fn spill(&mut self, at: usize, blocks: &[Bytes]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile()?),
        };
        let mut offset = at as u64 * SLICE_LEN;
        for block in blocks {
            file.write_all_at(block, offset)?;
            offset += block.len() as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::{ChainingValue, Extent};

    #[test]
    fn slices_in_any_order_in_memory_or_file_make_the_same_part() {
        let slice = |n: u8, len: usize| vec![Bytes::from(vec![n; len])];
        let full = SLICE_LEN as usize;
        let wanted = Payload::from_blocks([slice(1, full), slice(2, full), slice(3, 7)].concat());
        for slots in [0, 1, 9] {
            let memory = MemorySlots::new(slots);
            let mut part = UploadPart::new(3);
            for (at, blocks) in [(2, slice(3, 7)), (0, slice(1, full)), (1, slice(9, full))] {
                assert!(!part.is_whole());
                part.put(at, blocks, &memory).unwrap();
            }
            assert!(part.payload().unwrap().crc64() != wanted.crc64());
            part.forget(1);
            assert!(!part.is_whole());
            part.put(1, slice(2, full), &memory).unwrap();
            let payload = part.payload().unwrap();
            assert_eq!((payload.len(), payload.crc64()), (wanted.len(), wanted.crc64()), "{slots} slots");
            assert_eq!(payload.md5().unwrap(), wanted.md5().unwrap());
            drop(part);
            assert_eq!(memory.held.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn holes_are_zeros() {
        let extents = vec![Extent::data(3, 2), Extent::data(6, 1)];
        let data = SliceData { extents, value: ChainingValue::default() };
        let blocks = blocks(100_000, &data, &Bytes::from_static(b"abc"));
        let all = blocks.concat();
        assert_eq!((all.len(), &all[..8]), (100_000, &b"\0\0\0ab\0c\0"[..]));
    }
}
