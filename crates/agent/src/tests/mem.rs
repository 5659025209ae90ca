//! A source and a sink in memory, with the manners of real ones: a slow disk, group commits, proofs.

use haul_core::sync::Mutex;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use haul_core::digest::{SliceHasher, slice_count};
use haul_core::entry::Xattr;
use haul_core::probe::{ProbeResult, ProbeTask};
use haul_core::source::{ScanBatch, ScanVisit};
use haul_core::{
    Answer, Batch, BatchData, BufferPool, Changes, Digest, Entry, EntryKind, Error, ErrorKind, Extent,
    FileTree, FinishReport, HardLink, MetaNote, Offer, Outcome, Place, RelPath, Result, SLICE_LEN,
    ScanOptions, Side, Sink, SinkCaps, SinkOptions, SliceData, Source, SourceCaps, Timestamp, WriteDone,
};

use crate::OpenEnds;

/// Slices of a file that are there.
type ReceivedSlices = BTreeMap<u32, (SliceData, Vec<u8>)>;

/// The files of a remote machine, whichever process serves them.
#[derive(Default)]
pub(super) struct RemoteFiles {
    pub(super) files: Mutex<BTreeMap<RelPath, (Entry, Vec<u8>)>>,
    pub(super) staged: Mutex<BTreeMap<RelPath, ReceivedSlices>>,
    pub(super) opened: AtomicU32,
    pub(super) flushed: AtomicU32,
    /// Writes are not answered while it is set.
    pub(super) hold: AtomicBool,
    pub(super) removed: Mutex<Vec<RelPath>>,
    pub(super) discarded: Mutex<Vec<RelPath>>,
}

pub(super) fn path(text: &str) -> RelPath {
    RelPath::new(text.as_bytes()).unwrap()
}

pub(super) fn entry(name: &str, len: u64) -> Entry {
    let kind = if name.ends_with(".d") { EntryKind::Dir } else { EntryKind::File };
    let mtime = Timestamp { sec: 1_700_000_000, nsec: 5 };
    Entry { mtime, mode: 0o644, uid: 1, gid: 1, dev: 1, ino: 7, ..Entry::new(path(name), kind, len) }
}

pub(super) fn large_xattrs(len: usize) -> Vec<Xattr> {
    vec![(serde_bytes::ByteBuf::from(b"user.x".to_vec()), serde_bytes::ByteBuf::from(vec![7; len]))]
}

pub(super) fn bytes_of(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|i| ((i * 31 + i / 4096) ^ seed) as u8).collect()
}

impl RemoteFiles {
    pub(super) fn put(&self, name: &str, bytes: Vec<u8>) -> Arc<Entry> {
        let entry = entry(name, bytes.len() as u64);
        self.files.lock().insert(entry.path.clone(), (entry.clone(), bytes));
        Arc::new(entry)
    }

    pub(super) fn content(&self, name: &str) -> Option<Vec<u8>> {
        self.files.lock().get(&path(name)).map(|(_, bytes)| bytes.clone())
    }
}

pub(super) struct MemEnds(pub(super) Arc<RemoteFiles>);

impl OpenEnds for MemEnds {
    fn source(
        &self,
        place: &Place,
        _: haul_core::SourceOptions,
        pool: &BufferPool,
    ) -> Result<Arc<dyn Source>> {
        if place.path == b"/missing" {
            return Err(Error::new(ErrorKind::PermissionDenied, Side::Source, "open", "no").on(&place.path));
        }
        self.0.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(RemoteFilesSource { world: self.0.clone(), pool: pool.clone() }))
    }

    fn sink(&self, _: &Place, _: &SinkOptions, _: &BufferPool) -> Result<Arc<dyn Sink>> {
        self.0.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(RemoteFilesSink { world: self.0.clone() }))
    }

    fn probe(&self, task: &ProbeTask) -> Result<ProbeResult> {
        haul_probe::run(task, &|place| {
            Err(Error::new(ErrorKind::NotFound, Side::Local, "find", "no").on(&place.path))
        })
    }
}

pub(super) struct RemoteFilesSource {
    pub(super) world: Arc<RemoteFiles>,
    pub(super) pool: BufferPool,
}

impl Source for RemoteFilesSource {
    fn caps(&self) -> SourceCaps {
        SourceCaps::default()
    }

    fn root(&self) -> Result<Option<Entry>> {
        Ok(Some(entry("root.d", 0)))
    }

    fn scan(&self, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
        if options.starts == [path("broken")] {
            return Err(Error::new(ErrorKind::Io, Side::Source, "list", "the disk is gone"));
        }
        let all: Vec<Entry> = self.world.files.lock().values().map(|(e, _)| e.clone()).collect();
        for chunk in all.chunks(100) {
            let found = ScanBatch { entries: chunk.to_vec(), excluded: 1, ..ScanBatch::default() };
            if visit(found) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }

    fn lookup(&self, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
        let files = self.world.files.lock();
        Ok(paths.iter().map(|path| Ok(files.get(path).map(|(e, _)| e.clone()))).collect())
    }

    fn read(&self, batch: &Arc<Batch>) -> Result<BatchData> {
        let mut content = self.pool.take();
        let mut slices = Vec::new();
        for (entry, slice) in batch.iter() {
            let files = self.world.files.lock();
            let Some((_, bytes)) = files.get(&entry.path) else {
                slices.push(Err(Error::new(ErrorKind::NotFound, Side::Source, "read", "gone")));
                continue;
            };
            let start = slice.start();
            let len = slice.len_in(entry.len);
            let part = &bytes[start as usize..(start + len) as usize];
            content.grow(part.len()).unwrap().copy_from_slice(part);
            slices.push(Ok(prove(entry, slice.index, part)));
        }
        Ok(BatchData { batch: batch.clone(), slices, content, at_hand: true })
    }

    fn hashed(&self) -> Option<u64> {
        Some(1 << 40)
    }

    fn digest(&self, paths: &[RelPath]) -> Result<Vec<Result<Digest>>> {
        let files = self.world.files.lock();
        let missing = || Error::new(ErrorKind::NotFound, Side::Source, "hash", "gone");
        Ok(paths.iter().map(|p| files.get(p).map(|(_, b)| Digest::of(b)).ok_or_else(missing)).collect())
    }
}

pub(super) fn prove(entry: &Entry, index: u32, part: &[u8]) -> SliceData {
    let mut hasher = SliceHasher::new(entry.len, u64::from(index) * SLICE_LEN);
    hasher.update(part);
    let extents = if part.is_empty() { Vec::new() } else { vec![Extent::data(0, part.len() as u32)] };
    SliceData { extents, value: hasher.finish() }
}

pub(super) struct RemoteFilesSink {
    pub(super) world: Arc<RemoteFiles>,
}

impl RemoteFilesSink {
    fn take(&self, entry: &Arc<Entry>, index: u32, data: &SliceData, part: &[u8]) -> Result<Outcome> {
        if prove(entry, index, part) != *data {
            return Err(Error::new(ErrorKind::Corrupt, Side::Destination, "verify", "it differs"));
        }
        let mut staged = self.world.staged.lock();
        let slices = staged.entry(entry.path.clone()).or_default();
        slices.insert(index, (data.clone(), part.to_vec()));
        if slices.len() < slice_count(entry.len) as usize {
            return Ok(Outcome::Stored);
        }
        let slices = staged.remove(&entry.path).unwrap();
        let mut tree = FileTree::new(entry.len);
        let mut bytes = Vec::new();
        for (index, (data, part)) in slices {
            tree.set(index, data.value);
            bytes.extend(part);
        }
        self.world.files.lock().insert(entry.path.clone(), ((**entry).clone(), bytes));
        Ok(Outcome::Committed(tree.digest()))
    }
}

impl Sink for RemoteFilesSink {
    fn caps(&self) -> SinkCaps {
        SinkCaps::default()
    }

    fn offer(&self, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
        let files = self.world.files.lock();
        let answer = |offer: &Offer| {
            if offer.entry.is_dir() {
                Answer::Made(Changes::NEW)
            } else if files.contains_key(&offer.entry.path) {
                Answer::Same
            } else {
                Answer::Need { changes: Changes::NEW, have: Vec::new() }
            }
        };
        Ok(offers.iter().map(|offer| Ok(answer(offer))).collect())
    }

    fn write(&self, data: BatchData, done: WriteDone) {
        let mut at = 0;
        let outcomes = data
            .batch
            .iter()
            .zip(&data.slices)
            .map(|((entry, slice), read)| {
                let read = read.as_ref().map_err(Clone::clone)?;
                let len = read.data_len() as usize;
                at += len;
                self.take(entry, slice.index, read, &data.content.bytes()[at - len..at])
            })
            .collect();
        let world = self.world.clone();
        // The content is held until the slow disk has it.
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(10));
            while world.hold.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(10));
            }
            drop(data);
            done(outcomes);
        });
    }

    fn flush(&self) {
        self.world.flushed.fetch_add(1, Ordering::Relaxed);
    }

    fn discard(&self, paths: &[RelPath]) -> Result<()> {
        self.world.discarded.lock().extend(paths.iter().cloned());
        Ok(())
    }

    fn link(&self, links: &[HardLink]) -> Result<Vec<Result<Answer>>> {
        Ok(links.iter().map(|_| Ok(Answer::Made(Changes::NEW))).collect())
    }

    fn remove(&self, paths: &[RelPath]) -> Result<Vec<Result<()>>> {
        self.world.removed.lock().extend(paths.iter().cloned());
        Ok(paths.iter().map(|_| Ok(())).collect())
    }

    fn finish(&self) -> Result<FinishReport> {
        let note = MetaNote { what: "owner".into(), cause: "no".into(), count: 1, example: path("x") };
        Ok(FinishReport { notes: vec![note] })
    }
}
