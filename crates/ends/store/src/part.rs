//! A part of an upload, put together from slices that come in any order.

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

/// The content of a slice of `len` bytes with its holes as zeros; nothing is copied.
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

/// How many slices wait in memory for others of their parts; more of them go to files.
pub(super) struct Room {
    held: AtomicUsize,
    most: usize,
}

impl Room {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { held: AtomicUsize::new(0), most })
    }

    fn take(self: &Arc<Self>) -> Option<Seat> {
        if self.held.fetch_add(1, Ordering::Relaxed) < self.most {
            return Some(Seat(Arc::clone(self)));
        }
        self.held.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

struct Seat(Arc<Room>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One slice.
struct Piece {
    /// In memory, or else in the file.
    memory: Option<(Vec<Bytes>, Option<Seat>)>,
    crc64: u64,
    len: u64,
}

/// A part in the making.
pub(super) struct Part {
    pieces: Vec<Option<Piece>>,
    /// For slices that memory has no room for.
    file: Option<File>,
}

impl Part {
    /// Of so many slices.
    pub(super) fn new(slices: u32) -> Self {
        Self { pieces: (0..slices).map(|_| None).collect(), file: None }
    }

    /// Takes the slice at position `at`. The one that makes the part whole stays in memory in any case.
    ///
    /// # Errors
    /// If there is no room for it on disk either.
    pub(super) fn put(&mut self, at: usize, blocks: Vec<Bytes>, room: &Arc<Room>) -> io::Result<()> {
        let payload = Payload::from_blocks(blocks.clone());
        let (crc64, len) = (payload.crc64(), payload.len());
        let is_last = self.pieces.iter().enumerate().all(|(other, piece)| other == at || piece.is_some());
        let seat = if is_last { None } else { room.take() };
        let memory = if is_last || seat.is_some() {
            Some((blocks, seat))
        } else {
            self.spill(at, &blocks)?;
            None
        };
        if let Some(place) = self.pieces.get_mut(at) {
            *place = Some(Piece { memory, crc64, len });
        }
        Ok(())
    }

    /// Forgets a slice, which will come again.
    pub(super) fn forget(&mut self, at: usize) {
        if let Some(place) = self.pieces.get_mut(at) {
            *place = None;
        }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.pieces.iter().all(Option::is_some)
    }

    /// All of it.
    ///
    /// # Errors
    /// If what is not in the file yet cannot be written to it.
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
    fn slices_in_any_order_in_memory_or_not_are_the_same_part() {
        let slice = |n: u8, len: usize| vec![Bytes::from(vec![n; len])];
        let full = SLICE_LEN as usize;
        let wanted = Payload::from_blocks([slice(1, full), slice(2, full), slice(3, 7)].concat());
        for seats in [0, 1, 9] {
            let room = Room::new(seats);
            let mut part = Part::new(3);
            for (at, blocks) in [(2, slice(3, 7)), (0, slice(1, full)), (1, slice(9, full))] {
                assert!(!part.is_whole());
                part.put(at, blocks, &room).unwrap();
            }
            assert!(part.payload().unwrap().crc64() != wanted.crc64());
            part.forget(1);
            assert!(!part.is_whole());
            part.put(1, slice(2, full), &room).unwrap();
            let payload = part.payload().unwrap();
            assert_eq!((payload.len(), payload.crc64()), (wanted.len(), wanted.crc64()), "{seats} seats");
            assert_eq!(payload.md5().unwrap(), wanted.md5().unwrap());
            drop(part);
            assert_eq!(room.held.load(Ordering::Relaxed), 0);
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
