//! The reading end.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use haul_core::digest::{SLICE_LEN, SliceHasher};
use haul_core::filter::{DirRules, Filter, RulesAbove, look_above};
use haul_core::report::Failure;
use haul_core::source::{ScanVisit, changed_since_copied};
use haul_core::{
    Batch, BatchData, BufferPool, Digest, Entry, Error, ErrorKind, Extent, RelPath, Result, ScanBatch,
    ScanOptions, Side, Slice, SliceData, Source, SourceCaps,
};

use super::tree::{MemTree, MemTreeState};

/// Entries in one part of a scan.
const SCAN_BATCH: usize = 100;
/// Zeros of this length, at a multiple of it, are a hole of a sparse file.
const BLOCK: usize = 4096;

/// A [`MemTree`] as a source.
pub struct MemSource {
    tree: Arc<MemTree>,
    pool: BufferPool,
}

impl MemSource {
    /// Reads `tree` into buffers of `pool`.
    #[must_use]
    pub fn new(tree: &Arc<MemTree>, pool: &BufferPool) -> Self {
        Self { tree: Arc::clone(tree), pool: pool.clone() }
    }
}

fn missing(operation: &str, path: &RelPath) -> Error {
    Error::new(ErrorKind::NotFound, Side::Source, operation, "there is no such entry").on(path.as_bytes())
}

/// Everything that a scan finds.
fn found(state: &MemTreeState, options: &ScanOptions) -> Result<ScanBatch> {
    let (filter, top) = Filter::open(&options.rules, |names| above(state, names))?;
    let mut rules: HashMap<RelPath, DirRules> = HashMap::new();
    let mut batch = ScanBatch::default();
    let starts = if options.starts.is_empty() { vec![RelPath::root()] } else { options.starts.clone() };
    for start in starts.iter().filter(|start| !state.names.contains_key(*start)) {
        batch.errors.push(Failure { path: start.clone(), error: missing("look at", start) });
    }
    let is_below = |path: &RelPath, dir: &RelPath| {
        path == dir || dir.is_root() || path.as_bytes().starts_with(&[dir.as_bytes(), b"/"].concat())
    };
    let above = options.above_starts();
    let mut hidden: Vec<RelPath> = Vec::new();
    for path in state.names.keys() {
        let Some(mut entry) = state.entry(path) else { continue };
        let is_start = starts.iter().any(|start| is_below(path, start));
        if path.parent().is_some_and(|parent| !options.lists(&parent)) {
            continue;
        }
        if !is_start && !above.contains(path) || hidden.iter().any(|dir| is_below(path, dir)) {
            continue;
        }
        let dir = match path.parent() {
            Some(parent) => match rules.get(&parent) {
                Some(rules) => rules.clone(),
                None => {
                    let entered = filter.enter_all(&top, &parent, &mut |path| read_file(state, path))?;
                    rules.entry(parent).or_insert(entered).clone()
                }
            },
            None => top.clone(),
        };
        let is_entered = options.enters_starts && starts.contains(path);
        if !is_entered && !path.is_root() && batch.excludes(options, &filter, &dir, &entry) {
            hidden.push(path.clone());
            continue;
        }
        entry.names = None;
        batch.entries.push(entry);
    }
    Ok(batch)
}

/// Reads a file of filter rules.
fn read_file(state: &MemTreeState, path: &RelPath) -> Result<Option<Vec<u8>>> {
    let text = || state.get(path).map(|inode| inode.content.to_vec()).unwrap_or_default();
    Ok(state.entry(path).filter(Entry::is_file).map(|_| text()))
}

/// There is nothing above the root.
fn above(_: &MemTreeState, names: &[Vec<u8>]) -> Result<RulesAbove> {
    look_above(b"/", names, &mut |_| Ok(None))
}

/// The runs of data of a slice, as a file system with blocks reports them.
fn extents(entry: &Entry, bytes: &[u8]) -> Vec<Extent> {
    let mut extents: Vec<Extent> = Vec::new();
    for (at, block) in bytes.chunks(BLOCK).enumerate() {
        if entry.is_sparse() && block.iter().all(|byte| *byte == 0) {
            continue;
        }
        let start = (at * BLOCK) as u32;
        match extents.last_mut() {
            Some(last) if last.start + last.len == start => last.len += block.len() as u32,
            _ => extents.push(Extent::data(start, block.len() as u32)),
        }
    }
    extents
}

fn read(state: &MemTreeState, entry: &Entry, slice: Slice) -> Result<(SliceData, Vec<u8>)> {
    let inode = state.get(&entry.path).ok_or_else(|| missing("read", &entry.path))?;
    if state.entry(&entry.path).map(|now| now.identity()) != Some(entry.identity()) {
        let cause = "the file changed while it was read";
        let error = Error::new(ErrorKind::SourceChanged, Side::Source, "read", cause);
        return Err(error.on(entry.path.as_bytes()));
    }
    let (start, len) = (slice.start(), slice.len_in(entry.len));
    let bytes = inode.content.get(start as usize..(start + len) as usize).unwrap_or_default();
    let mut hasher = SliceHasher::new(entry.len, start);
    hasher.update(bytes);
    let extents = extents(entry, bytes);
    let data = |extent: &Extent| &bytes[extent.start as usize..(extent.start + extent.len) as usize];
    let content = extents.iter().map(data).collect::<Vec<_>>().concat();
    Ok((SliceData { extents, value: hasher.finish() }, content))
}

impl Source for MemSource {
    fn caps(&self) -> SourceCaps {
        const { assert!(SLICE_LEN.is_multiple_of(BLOCK as u64), "a block is in one slice") };
        SourceCaps { parts: true, removes: true, ..SourceCaps::default() }
    }

    fn root(&self) -> Result<Option<Entry>> {
        Ok(self.tree.state().entry(&RelPath::root()))
    }

    fn scan(&self, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
        let mut all = found(&self.tree.state(), options)?;
        let mut rest = std::mem::take(&mut all.entries).into_iter();
        loop {
            let entries: Vec<Entry> = rest.by_ref().take(SCAN_BATCH).collect();
            let is_last = entries.len() < SCAN_BATCH;
            let batch = ScanBatch { entries, ..std::mem::take(&mut all) };
            if visit(batch) == ControlFlow::Break(()) || is_last {
                return Ok(());
            }
        }
    }

    fn lookup(&self, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
        let state = self.tree.state();
        Ok(paths.iter().map(|path| Ok(state.entry(path))).collect())
    }

    fn above(&self, names: &[Vec<u8>]) -> Result<RulesAbove> {
        above(&self.tree.state(), names)
    }

    fn read(&self, batch: &Arc<Batch>) -> Result<BatchData> {
        let mut content = self.pool.take();
        let mut slices = Vec::with_capacity(batch.slices.len());
        for (entry, slice) in batch.iter() {
            // The lock is not held for the whole batch: others write between its files.
            let read = read(&self.tree.state(), entry, slice);
            slices.push(read.and_then(|(data, bytes)| {
                let too_large =
                    || Error::new(ErrorKind::Protocol, Side::Source, "read", "the batch is too large");
                content.grow(bytes.len()).ok_or_else(too_large)?.copy_from_slice(&bytes);
                Ok(data)
            }));
        }
        Ok(BatchData { batch: Arc::clone(batch), slices, content, at_hand: true })
    }

    fn digest(&self, paths: &[RelPath]) -> Result<Vec<Result<Digest>>> {
        let state = self.tree.state();
        let digest = |path: &RelPath| {
            let inode = state.get(path).filter(|inode| inode.entry.is_file());
            inode.map(|inode| Digest::of(&inode.content)).ok_or_else(|| missing("hash", path))
        };
        Ok(paths.iter().map(digest).collect())
    }

    fn remove_unchanged(&self, entries: &[Entry]) -> Result<Vec<Result<()>>> {
        let mut state = self.tree.state();
        let mut remove = |entry: &Entry| {
            let Some(now) = state.entry(&entry.path) else { return Ok(()) };
            if now.kind != entry.kind || now.is_dir() || now.identity() != entry.identity() {
                return Err(changed_since_copied().on(entry.path.as_bytes()));
            }
            state.remove(&entry.path);
            Ok(())
        };
        Ok(entries.iter().map(&mut remove).collect())
    }
}
