//! Reads slices. A file, or a slice of a large one, is opened, read, looked at and closed in one frame.

use std::sync::Arc;

use haul_core::digest::{SliceHasher, slice_len};
use haul_core::{
    Batch, BatchData, Buffer, ChainingValue, Entry, Error, ErrorKind, Extent, Result, SLICE_LEN, Slice,
    SliceData,
};
use haul_ends::server_tree::ServerTree;

use super::attrs::{Attrs, timestamp};
use super::reply::Fault;
use super::step::{ChainStep, OpenedKind, READ};
use super::tree::Tree;

/// The most threads that hash files for one request.
pub(super) const HASHERS: u32 = 8;

/// A part of a slice that one command reads.
struct SlicePiece<'a> {
    entry: &'a Entry,
    /// The number of the slice in the batch.
    slice: usize,
    offset: u64,
    len: u32,
}

/// A piece of the content, and the file after it was read.
struct PieceResult {
    data: Vec<u8>,
    now: Attrs,
}

/// Reads the slices of a batch and hashes them.
pub(super) fn read(tree: &Tree, batch: &Arc<Batch>) -> Result<BatchData> {
    let empty = batch.entries.iter().all(|entry| entry.len == 0);
    let mut content = if empty { Buffer::default() } else { tree.smb.buffers.take() };
    let items: Vec<(&Arc<Entry>, Slice)> = batch.iter().collect();
    let pieces = cut(&items, tree.smb.server.most() as u64);
    let mut slices: Vec<Reading> = items.iter().map(|(entry, slice)| Reading::new(entry, *slice)).collect();
    let numbers: Vec<usize> = pieces.iter().map(|piece| piece.slice).collect();
    let mut numbers = numbers.into_iter();
    tree.smb.each(
        pieces,
        async |piece| (piece.entry, take(tree, &piece).await),
        |(entry, taken)| {
            if let Some(reading) = numbers.next().and_then(|number| slices.get_mut(number)) {
                reading.add(tree, entry, taken, &mut content);
            }
        },
    )?;
    let slices = slices.into_iter().map(Reading::finish).collect();
    Ok(BatchData { batch: Arc::clone(batch), slices, content, at_hand: true })
}

/// Cuts slices into pieces of at most `most` bytes. A slice has at least one, as each file is looked at.
fn cut<'a>(items: &[(&'a Arc<Entry>, Slice)], most: u64) -> Vec<SlicePiece<'a>> {
    let mut pieces = Vec::with_capacity(items.len());
    for (slice, (entry, of)) in items.iter().enumerate() {
        let (start, len) = (of.start(), of.len_in(entry.len));
        let mut at = 0;
        loop {
            let step = (len - at).min(most);
            pieces.push(SlicePiece { entry, slice, offset: start + at, len: step as u32 });
            at += step;
            if at >= len {
                break;
            }
        }
    }
    pieces
}

async fn take(tree: &Tree, piece: &SlicePiece<'_>) -> Result<PieceResult, Fault> {
    let mut chain = vec![ChainStep::open(&tree.remote(&piece.entry.path)?, OpenedKind::File, READ)];
    if piece.len > 0 {
        chain.push(ChainStep::read(piece.offset, piece.len));
    }
    chain.push(ChainStep::close());
    let replies = tree.run(&chain).await?;
    let opened = replies.opened()?;
    if Attrs::from(&opened).is_reparse_point() {
        return Err(tree.changed(&piece.entry.path).into());
    }
    let data = if piece.len > 0 { replies.data(1)? } else { Vec::new() };
    if data.len() != piece.len as usize {
        return Err(tree.changed(&piece.entry.path).into());
    }
    Ok(PieceResult { data, now: Attrs::from(&replies.closed(chain.len() - 1)?) })
}

/// A slice that is being read.
struct Reading {
    hasher: SliceHasher,
    len: u64,
    got: u64,
    failed: Option<Error>,
}

impl Reading {
    fn new(entry: &Entry, slice: Slice) -> Self {
        let hasher = SliceHasher::new(entry.len, slice.start());
        Self { hasher, len: slice.len_in(entry.len), got: 0, failed: None }
    }

    /// Adds the next piece. The file is looked at after the bytes were read: one that still has the size and the times of
    /// the scan was not changed.
    fn add(&mut self, tree: &Tree, entry: &Entry, taken: Result<PieceResult, Fault>, content: &mut Buffer) {
        if self.failed.is_some() {
            return;
        }
        let failed = match taken {
            Err(fault) => Some(tree.error("read", &entry.path, fault)),
            Ok(taken) if !is_still(entry, &taken.now) => Some(tree.changed(&entry.path)),
            Ok(taken) => match content.grow(taken.data.len()) {
                Some(space) => {
                    space.copy_from_slice(&taken.data);
                    self.hasher.update(&taken.data);
                    self.got += taken.data.len() as u64;
                    None
                }
                None => Some(tree.fault(ErrorKind::Protocol, "read", &entry.path, "the batch is too large")),
            },
        };
        self.failed = failed;
        if self.failed.is_some() {
            // A failed read leaves no bytes in the buffer.
            let len = content.bytes().len() as u64;
            content.truncate((len - self.got) as usize);
        }
    }

    fn finish(self) -> Result<SliceData> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let extents = if self.len == 0 { Vec::new() } else { vec![Extent::data(0, self.len as u32)] };
        Ok(SliceData { extents, value: self.hasher.finish() })
    }
}

fn is_still(entry: &Entry, now: &Attrs) -> bool {
    let (modified, changed) = (timestamp(now.modified), Some(timestamp(now.changed)));
    now.is_file() && now.len == entry.len && modified == entry.mtime && changed == entry.ctime
}

/// The whole content of a small file on the share, of at most `most` bytes.
pub(super) async fn content(tree: &Tree, remote: &str, most: u32) -> Result<Vec<u8>, Fault> {
    let replies = tree
        .run(&[
            ChainStep::open(remote, OpenedKind::File, READ),
            ChainStep::read(0, most.max(1)),
            ChainStep::close(),
        ])
        .await?;
    replies.opened()?;
    replies.data(1)
}

/// The chaining value of a slice of a staged file of `len` bytes; `None` if it is shorter.
pub(super) async fn staged(
    tree: &Tree,
    remote: &str,
    len: u64,
    index: u32,
) -> Result<Option<ChainingValue>, Fault> {
    let (start, slice) = (u64::from(index) * SLICE_LEN, slice_len(len, index));
    let mut hasher = SliceHasher::new(len, start);
    let mut at = 0;
    while at < slice {
        let step = (slice - at).min(tree.smb.server.most() as u64);
        let chain = [
            ChainStep::open(remote, OpenedKind::File, READ),
            ChainStep::read(start + at, step as u32),
            ChainStep::close(),
        ];
        let replies = tree.run(&chain).await?;
        replies.opened()?;
        let data = replies.data(1)?;
        if data.len() as u64 != step {
            return Ok(None);
        }
        hasher.update(&data);
        at += step;
    }
    Ok(Some(hasher.finish()))
}
