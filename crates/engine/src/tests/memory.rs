//! A source and a sink in memory. They keep entries but no content: the number that `content` sets stands for the
//! content of a file.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use haul_core::digest::slice_count;
use haul_core::sink::CloneRead;
use haul_core::source::{ScanVisit, changed_since_copied};
use haul_core::sync::Mutex;
use haul_core::{
    Answer, Batch, BatchData, Buffer, BufferPool, ChainingValue, Changes, Digest, Entry, EntryKind, Error,
    ErrorKind, Failure, FinishReport, HardLink, HungOperation, Offer, Outcome, PageHashes, RelPath, Result,
    ScanBatch, ScanOptions, Side, Sink, SinkCaps, SliceData, Source, SourceCaps, WriteDone,
};

use super::faults::{EndCall, PlannedErrors, path};

/// The number of entries in one scan batch.
const BATCH: usize = 7;

pub(super) fn file(at: &str, len: u64) -> Entry {
    let mut entry = Entry::new(path(at), EntryKind::File, len);
    entry.mode = 0o644;
    entry.mtime.sec = 1;
    entry
}

pub(super) fn dir(at: &str) -> Entry {
    Entry { mode: 0o755, ..Entry::new(path(at), EntryKind::Dir, 0) }
}

pub(super) fn symlink(at: &str, target: &str) -> Entry {
    Entry::new(path(at), EntryKind::Symlink(target.as_bytes().to_vec()), 0)
}

/// Another version of the file.
pub(super) fn older(entry: Entry) -> Entry {
    let mut entry = content(entry, 99);
    entry.mtime.sec = 0;
    entry
}

/// The file with other content.
pub(super) fn content(mut entry: Entry, content: i64) -> Entry {
    entry.atime.sec = content;
    entry
}

fn digest(entry: &Entry) -> Digest {
    Digest([entry.atime.sec as u8; 32])
}

pub(super) type MemoryTree = BTreeMap<RelPath, Entry>;

pub(super) fn tree(entries: impl IntoIterator<Item = Entry>) -> MemoryTree {
    entries.into_iter().map(|entry| (entry.path.clone(), entry)).collect()
}

/// A source in memory.
#[derive(Default)]
pub(super) struct MemorySource {
    pub(super) tree: Mutex<MemoryTree>,
    pub(super) faults: Arc<PlannedErrors>,
    /// Paths that the scan reports as errors.
    pub(super) unreadable: Mutex<Vec<RelPath>>,
    /// Entries that lookups find instead of those of the tree.
    pub(super) now: Mutex<HashMap<RelPath, Option<Entry>>>,
    /// The entries come from an index.
    pub(super) from_index: AtomicBool,
    /// Files can be opened for cloning.
    pub(super) can_clone: AtomicBool,
    /// How long the hashing of a file takes, and the bytes that are hashed as it begins.
    pub(super) hashing: Mutex<(Duration, u64)>,
    /// The scan lists the root above its starts, as those of all ends do.
    pub(super) lists_above: AtomicBool,
    /// The bytes of content of each batch.
    pub(super) content_len: AtomicUsize,
    /// Entries that are put there before the first removal.
    pub(super) changed_before_removal: Mutex<Vec<Entry>>,
}

impl Source for MemorySource {
    fn caps(&self) -> SourceCaps {
        SourceCaps { delta: true, local_files: true, removes: true, ..SourceCaps::default() }
    }

    fn root(&self) -> Result<Option<Entry>> {
        Ok(self.tree.lock().get(&RelPath::root()).cloned())
    }

    fn scan(&self, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
        let tree = self.tree.lock().clone();
        let lists_above = self.lists_above.load(Ordering::Relaxed);
        let starts = |entry: &&Entry| {
            options.starts.is_empty()
                || options.starts.contains(&entry.path)
                || lists_above && entry.path.is_root()
        };
        let entries: Vec<Entry> = tree.values().filter(starts).cloned().collect();
        for entries in entries.chunks(BATCH) {
            self.faults.meet(EndCall::Scan, &RelPath::root())?;
            let told = self.from_index.load(Ordering::Relaxed);
            let batch = ScanBatch { entries: entries.to_vec(), told, ..ScanBatch::default() };
            if visit(batch) == ControlFlow::Break(()) {
                return Ok(());
            }
        }
        let unreadable = self.unreadable.lock().clone();
        let errors = unreadable.into_iter().map(|path| Failure {
            path,
            error: Error::new(ErrorKind::PermissionDenied, Side::Source, "open", "planned"),
        });
        let _ended = visit(ScanBatch { errors: errors.collect(), ..ScanBatch::default() });
        Ok(())
    }

    fn lookup(&self, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
        let (tree, now) = (self.tree.lock(), self.now.lock());
        let look = |path: &RelPath| {
            self.faults.meet(EndCall::Lookup, path)?;
            Ok(now.get(path).cloned().unwrap_or_else(|| tree.get(path).cloned()))
        };
        Ok(paths.iter().map(look).collect())
    }

    fn read(&self, batch: &Arc<Batch>) -> Result<BatchData> {
        self.faults.meet(EndCall::ReadBatch, &batch.entries[0].path)?;
        let read = |(entry, _): (&Arc<Entry>, _)| {
            self.faults.meet(EndCall::Read, &entry.path)?;
            Ok(SliceData { extents: Vec::new(), value: ChainingValue([0; 32]) })
        };
        let slices = batch.iter().map(read).collect();
        let (len, mut content) = (self.content_len.load(Ordering::Relaxed), Buffer::default());
        if len > 0 {
            content = BufferPool::new(haul_core::SLICE_LEN).take();
            content.grow(len).unwrap();
        }
        Ok(BatchData { batch: batch.clone(), slices, content, at_hand: false })
    }

    fn hashed(&self) -> Option<u64> {
        Some(self.hashing.lock().1)
    }

    fn digest(&self, paths: &[RelPath]) -> Result<Vec<Result<Digest>>> {
        let (time, _) = *self.hashing.lock();
        std::thread::sleep(time);
        let tree = self.tree.lock();
        let hash = |path: &RelPath| {
            self.faults.meet(EndCall::Digest, path)?;
            let missing = || Error::new(ErrorKind::NotFound, Side::Source, "hash", "planned");
            tree.get(path).map(digest).ok_or_else(missing)
        };
        Ok(paths.iter().map(hash).collect())
    }

    fn remove_unchanged(&self, entries: &[Entry]) -> Result<Vec<Result<()>>> {
        let mut tree = self.tree.lock();
        for changed in self.changed_before_removal.lock().drain(..) {
            tree.insert(changed.path.clone(), changed);
        }
        let mut remove = |entry: &Entry| {
            self.faults.meet(EndCall::RemoveSource, &entry.path)?;
            if tree.get(&entry.path).is_some_and(|now| now.identity() != entry.identity()) {
                return Err(changed_since_copied());
            }
            tree.remove(&entry.path);
            Ok(())
        };
        Ok(entries.iter().map(&mut remove).collect())
    }

    fn local_file(&self, _: &Entry) -> Option<Result<File>> {
        let open = || File::open("/dev/null").map_err(|e| Error::io(Side::Source, "open", &e));
        self.can_clone.load(Ordering::Relaxed).then(open)
    }
}

/// A sink in memory.
#[derive(Default)]
pub(super) struct MemorySink {
    pub(super) tree: Mutex<MemoryTree>,
    pub(super) faults: Arc<PlannedErrors>,
    pub(super) dry_run: bool,
    pub(super) ignore_existing: bool,
    /// Without a digest no file is up to date.
    pub(super) checksum: AtomicBool,
    pub(super) staged: Mutex<HashMap<RelPath, BTreeSet<u32>>>,
    /// The number of commits that are never reported.
    pub(super) silent_commits: AtomicU32,
    /// Such commits are lost.
    pub(super) loses_commits: AtomicBool,
    /// Slices of every file that an interrupted run has left.
    pub(super) have: Mutex<Vec<Range<u32>>>,
    /// Writes are never completed; their callbacks are kept here.
    pub(super) holds_writes: AtomicBool,
    pub(super) held: Mutex<Vec<WriteDone>>,
    /// Slices of which page hashes were asked.
    pub(super) compared: Mutex<Vec<Range<u32>>>,
    pub(super) hung: Mutex<Vec<HungOperation>>,
    pub(super) can_clone: AtomicBool,
    /// The listing of the view has an error.
    pub(super) unlistable: AtomicBool,
}

impl MemorySink {
    fn answer(&self, offer: &Offer) -> Result<Answer> {
        let entry = &offer.entry;
        self.faults.meet(EndCall::Offer, &entry.path)?;
        let mut tree = self.tree.lock();
        let old = tree.get(&entry.path).cloned();
        if old.is_some() && self.ignore_existing && !entry.is_dir() {
            return Ok(Answer::Left(haul_core::sink::SkipReason::Exists));
        }
        let same_content = old.as_ref().is_some_and(|old| {
            let not_told = !entry.is_file() || !self.checksum.load(Ordering::Relaxed);
            let as_told = offer.digest.map_or(not_told, |told| told == digest(old));
            old.kind == entry.kind && old.len == entry.len && old.mtime == entry.mtime && as_told
        });
        if same_content {
            let is_same = old.is_some_and(|old| old.mode == entry.mode);
            if !self.dry_run {
                tree.insert(entry.path.clone(), Entry::clone(entry));
            }
            return Ok(if is_same { Answer::Same } else { Answer::Updated(Changes::NONE) });
        }
        if !entry.is_dir() && has_children(&tree, &entry.path) {
            return Err(Error::not_empty(Side::Destination));
        }
        if entry.is_file() {
            let have = if entry.len > haul_core::SLICE_LEN { self.have.lock().clone() } else { Vec::new() };
            let mut staged = self.staged.lock();
            staged.entry(entry.path.clone()).or_default().extend(have.iter().cloned().flatten());
            return Ok(Answer::Need { changes: Changes::NEW.when(old.is_none()), have });
        }
        if !self.dry_run {
            tree.insert(entry.path.clone(), Entry::clone(entry));
        }
        Ok(Answer::Made(Changes::NEW))
    }

    fn write_slice(&self, entry: &Entry, index: u32, data: Result<SliceData>) -> Result<Outcome> {
        data?;
        self.faults.meet(EndCall::Write, &entry.path)?;
        // Locked in the order of `answer`.
        let mut tree = self.tree.lock();
        let mut staged = self.staged.lock();
        let slices = staged.entry(entry.path.clone()).or_default();
        slices.insert(index);
        if slices.len() < slice_count(entry.len) as usize {
            return Ok(Outcome::Stored);
        }
        if has_children(&tree, &entry.path) {
            return Err(Error::not_empty(Side::Destination));
        }
        let one_less = |count: u32| count.checked_sub(1);
        let is_silent =
            self.silent_commits.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok();
        if is_silent && self.loses_commits.load(Ordering::Relaxed) {
            slices.clear();
        } else {
            tree.insert(entry.path.clone(), entry.clone());
        }
        Ok(if is_silent { Outcome::Stored } else { Outcome::Committed(None) })
    }
}

fn has_children(tree: &MemoryTree, path: &RelPath) -> bool {
    tree.keys().any(|other| other.parent().as_ref() == Some(path))
}

impl Sink for MemorySink {
    fn caps(&self) -> SinkCaps {
        SinkCaps { delta: true, clones: true, ..SinkCaps::default() }
    }

    fn offer(&self, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
        Ok(offers.iter().map(|offer| self.answer(offer)).collect())
    }

    fn write(&self, data: BatchData, done: WriteDone) {
        if self.holds_writes.load(Ordering::Relaxed) {
            for (entry, _) in data.batch.iter() {
                let _cancels = self.faults.meet(EndCall::Write, &entry.path);
            }
            return self.held.lock().push(done);
        }
        let slices = data.batch.iter().zip(data.slices);
        done(slices.map(|((entry, slice), data)| self.write_slice(entry, slice.index, data)).collect());
    }

    fn pages(&self, _: &Arc<Entry>, slices: Range<u32>) -> Result<Vec<PageHashes>> {
        self.compared.lock().push(slices.clone());
        Ok(slices.map(|_| PageHashes::default()).collect())
    }

    fn flush(&self) {}

    fn hung(&self, _: Duration) -> Vec<HungOperation> {
        self.hung.lock().clone()
    }

    fn discard(&self, paths: &[RelPath]) -> Result<()> {
        for path in paths {
            self.faults.meet(EndCall::Discard, path)?;
            self.staged.lock().remove(path);
        }
        Ok(())
    }

    fn link(&self, links: &[HardLink]) -> Result<Vec<Result<Answer>>> {
        let link = |link: &HardLink| {
            let path = &link.entry.path;
            self.faults.meet(EndCall::Link, path)?;
            let mut tree = self.tree.lock();
            if has_children(&tree, path) {
                return Err(Error::not_empty(Side::Destination));
            }
            if !self.dry_run && !tree.get(&link.to).is_some_and(Entry::is_file) {
                return Err(Error::no_first_name(Side::Destination));
            }
            let old = if self.dry_run { None } else { tree.insert(path.clone(), Entry::clone(&link.entry)) };
            Ok(if old.as_ref() == Some(&*link.entry) { Answer::Same } else { Answer::Made(Changes::NEW) })
        };
        Ok(links.iter().map(link).collect())
    }

    fn remove(&self, paths: &[RelPath]) -> Result<Vec<Result<()>>> {
        let remove = |path: &RelPath| {
            self.faults.meet(EndCall::Remove, path)?;
            let mut tree = self.tree.lock();
            if !self.dry_run && has_children(&tree, path) {
                return Err(Error::not_empty(Side::Destination));
            }
            if !self.dry_run {
                tree.remove(path);
            }
            Ok(())
        };
        Ok(paths.iter().map(remove).collect())
    }

    fn finish(&self) -> Result<FinishReport> {
        self.faults.meet(EndCall::Finish, &RelPath::root())?;
        Ok(FinishReport::default())
    }

    fn clone_file(&self, entry: &Entry, _: &File, read: Option<&CloneRead<'_>>) -> Result<Option<Outcome>> {
        self.faults.meet(EndCall::Clone, &entry.path)?;
        if !self.can_clone.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if read.is_some_and(|read| !read(entry.len)) {
            return Err(Error::new(ErrorKind::Cancelled, Side::Destination, "read back", "test"));
        }
        self.tree.lock().insert(entry.path.clone(), entry.clone());
        Ok(Some(Outcome::Committed(read.map(|_| Digest([7; 32])))))
    }
}

/// The sink, opened for reading.
pub(super) struct SinkView(pub(super) Arc<MemorySink>);

impl SinkView {
    fn source(&self) -> MemorySource {
        let unreadable = if self.0.unlistable.load(Ordering::Relaxed) { vec![path("x")] } else { Vec::new() };
        let tree = self.0.tree.lock().clone();
        MemorySource { tree: Mutex::new(tree), unreadable: Mutex::new(unreadable), ..MemorySource::default() }
    }
}

impl Source for SinkView {
    fn caps(&self) -> SourceCaps {
        SourceCaps::default()
    }

    fn root(&self) -> Result<Option<Entry>> {
        self.source().root()
    }

    fn scan(&self, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
        self.source().scan(options, visit)
    }

    fn lookup(&self, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
        self.source().lookup(paths)
    }

    fn read(&self, batch: &Arc<Batch>) -> Result<BatchData> {
        self.source().read(batch)
    }

    fn digest(&self, paths: &[RelPath]) -> Result<Vec<Result<Digest>>> {
        self.source().digest(paths)
    }
}
