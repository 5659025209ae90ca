//! The SFTP end against a server in memory.

mod pool;
mod server;
mod sink;
mod source;

use std::sync::Arc;

use haul_core::digest::{SliceHasher, slice_len};
use haul_core::{
    Batch, BatchData, BufferPool, Entry, EntryKind, Extent, Offer, Outcome, Place, PlaceRoot, RelPath,
    Result, SLICE_LEN, Sink, SinkOptions, Slice, SliceData, Timestamp,
};

use crate::session::Sftp;

fn place(path: &str) -> Place {
    Place { path: path.as_bytes().to_vec(), root: PlaceRoot::Exactly }
}

fn path(text: &str) -> RelPath {
    RelPath::new(text.as_bytes()).unwrap()
}

fn entry(name: &str, kind: EntryKind, len: u64) -> Arc<Entry> {
    let mtime = Timestamp { sec: 1_700_000_000, nsec: 0 };
    let at = if name.is_empty() { RelPath::root() } else { path(name) };
    Arc::new(Entry { mtime, atime: mtime, mode: 0o644, uid: 1, gid: 1, ..Entry::new(at, kind, len) })
}

fn file(name: &str, bytes: &[u8]) -> Arc<Entry> {
    entry(name, EntryKind::File, bytes.len() as u64)
}

fn offer(entry: &Arc<Entry>) -> Offer {
    Offer { entry: entry.clone(), digest: None }
}

fn bytes_of(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 4096) as u8).collect()
}

/// One slice of a file, with its content and its proof.
fn data_of(entry: &Arc<Entry>, index: u32, bytes: &[u8]) -> BatchData {
    let start = (u64::from(index) * SLICE_LEN) as usize;
    let part = &bytes[start..start + slice_len(entry.len, index) as usize];
    let mut hasher = SliceHasher::new(entry.len, start as u64);
    hasher.update(part);
    let extents = if part.is_empty() { Vec::new() } else { vec![Extent::data(0, part.len() as u32)] };
    let mut content = BufferPool::new(16 * 1024 * 1024).take();
    content.grow(part.len()).unwrap().copy_from_slice(part);
    let batch = Batch { entries: vec![entry.clone()], slices: vec![Slice::whole(0, index)], again: false };
    let slices = vec![Ok(SliceData { extents, value: hasher.finish() })];
    BatchData { batch: Arc::new(batch), slices, content, at_hand: false }
}

/// Writes and returns the outcomes.
fn write(sink: &dyn Sink, data: BatchData) -> Vec<Result<Outcome>> {
    let (sender, receiver) = std::sync::mpsc::channel();
    sink.write(data, Box::new(move |outcomes| drop(sender.send(outcomes))));
    receiver.recv().unwrap()
}

fn options() -> SinkOptions {
    SinkOptions { durable: true, ..SinkOptions::default() }
}

fn sink(session: &Arc<Sftp>, options: &SinkOptions) -> Arc<dyn Sink> {
    session.open_sink(&place("/home/dst"), options).unwrap()
}
