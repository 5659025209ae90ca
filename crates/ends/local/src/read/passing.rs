//! A slice of a large file that is passed on while it is read: each piece is read, hashed and sent, or written, while it is
//! in the cache of the CPU. Its proof follows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_core::digest::SliceHasher;
use haul_core::sink::ArrivingContent;
use haul_core::source::TakeArriving;
use haul_core::{
    Batch, BatchData, Buffer, ChainingValue, Entry, Error, Extent, Result, SLICE_LEN, Slice, SliceData,
};

use super::file::{STEP, read_at};
use super::page_cache::{self, CachedFile};
use super::reader::Reader;
use crate::tree::local_tree::LocalTree;

/// The content of a slice that is being read.
struct PassingSlice<'a> {
    reader: &'a Reader,
    tree: &'a LocalTree,
    entry: &'a Entry,
    opened: Arc<CachedFile>,
    start: u64,
    len: u64,
    read: u64,
    hasher: SliceHasher,
    pages_are_good: bool,
    drop_after: bool,
    piece: Buffer,
    /// When the first piece was read, and the time that reading took.
    begun: Option<Instant>,
    reading: Duration,
    /// Why it could not be read.
    failed: Option<Error>,
}

impl Reader {
    /// Reads a batch. If it is one slice of a large file without holes, its content is passed to `take` instead, if that
    /// takes it.
    pub(crate) fn read_arriving(
        &self,
        tree: &LocalTree,
        batch: &Arc<Batch>,
        take: &mut TakeArriving<'_>,
    ) -> Result<Option<BatchData>> {
        let Some((entry, slice)) = only_slice(batch).filter(|_| !tree.is_network_fs() && self.passing.next())
        else {
            return Ok(Some(self.read(tree, batch)));
        };
        // An error of opening is found again, and reported.
        let Ok(mut passing) = PassingSlice::open(self, tree, entry, slice) else {
            return Ok(Some(self.read(tree, batch)));
        };
        let extents = vec![Extent::data(0, passing.len as u32)];
        // The proof follows.
        let taken = take(batch, &[Ok(SliceData { extents, value: ChainingValue::default() })], &mut passing);
        if let Some(begun) = passing.begun {
            self.passing.passed(passing.reading, begun.elapsed());
        }
        match (taken, passing.failed.take()) {
            (Ok(true), _) => Ok(None),
            (Ok(false), _) => {
                // Gives its memory back.
                drop(passing);
                Ok(Some(self.read(tree, batch)))
            }
            (Err(_), Some(failed)) => {
                let (batch, slices) = (Arc::clone(batch), vec![Err(failed)]);
                Ok(Some(BatchData { batch, slices, content: Buffer::default(), at_hand: true }))
            }
            (Err(error), None) => Err(error),
        }
    }
}

/// The only slice of a batch, if it is one of a large file without holes.
fn only_slice(batch: &Batch) -> Option<(&Arc<Entry>, Slice)> {
    let is_passed = |entry: &Entry| entry.len > SLICE_LEN && !entry.is_sparse() && !entry.is_growing();
    batch.get(0).filter(|(entry, _)| batch.slices.len() == 1 && is_passed(entry))
}

impl<'a> PassingSlice<'a> {
    fn open(reader: &'a Reader, tree: &'a LocalTree, entry: &'a Entry, slice: Slice) -> Result<Self> {
        let _doing = tree.doing("read", &entry.path);
        let opened = reader.file(&tree.root, entry)?;
        let (start, len) = (slice.start(), slice.len_in(entry.len));
        let drop_after = Reader::drops_after(&opened, entry, slice);
        Ok(Self {
            reader,
            tree,
            entry,
            opened,
            start,
            len,
            read: 0,
            hasher: SliceHasher::new(entry.len, start),
            pages_are_good: true,
            drop_after,
            piece: reader.buffer(),
            begun: None,
            reading: Duration::ZERO,
            failed: None,
        })
    }

    fn read_piece(&mut self) -> Result<()> {
        let _doing = self.tree.doing("read", &self.entry.path);
        let begun = Instant::now();
        self.begun.get_or_insert(begun);
        let len = (self.len - self.read).min(STEP as u64) as usize;
        self.piece.truncate(0);
        // A piece fits into a buffer.
        let piece = self.piece.grow(len).unwrap_or_default();
        let (root, at) = (&self.tree.root, self.start + self.read);
        self.pages_are_good &= read_at(root, self.entry, &self.opened, piece, at)?;
        self.reading += begun.elapsed();
        self.hasher.update(piece);
        self.read += len as u64;
        Ok(())
    }

    fn end(&mut self) -> Result<ChainingValue> {
        let _doing = self.tree.doing("read", &self.entry.path);
        self.opened.settle_pages(self.pages_are_good)?;
        if self.drop_after {
            page_cache::release(&self.opened.file, self.start, self.len);
        }
        self.reader.check_unchanged(&self.tree.root, self.entry, &self.opened.file)?;
        let unused = SliceHasher::new(self.entry.len, self.start);
        Ok(std::mem::replace(&mut self.hasher, unused).finish())
    }

    /// Remembers an error.
    fn note(&mut self, error: &Error) {
        self.reader.forget_stale(self.entry, error);
        self.failed = Some(error.clone());
    }
}

impl ArrivingContent for PassingSlice<'_> {
    fn next(&mut self) -> Result<&[u8]> {
        if self.read == self.len {
            return Ok(&[]);
        }
        if let Err(error) = self.read_piece() {
            self.note(&error);
            return Err(error);
        }
        Ok(self.piece.bytes())
    }

    fn proof(&mut self) -> Result<Option<ChainingValue>> {
        match self.end() {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                self.note(&error);
                Err(error)
            }
        }
    }

    fn is_at_hand(&self) -> bool {
        true
    }
}

#[cfg(test)]
#[path = "passing_tests.rs"]
mod tests;
