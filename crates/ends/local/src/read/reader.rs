//! Reading batches of slices into a buffer, hashing them on the way.

use haul_core::sync::Mutex;
use std::fs::File;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use haul_core::digest::{SliceHasher, slice_len};
use haul_core::{
    Batch, BatchData, Buffer, BufferPool, ChainingValue, Entry, Error, ErrorKind, Extent, PageChecks,
    PageHashes, RelPath, Result, Retry, SLICE_LEN, ScanBatch, ScanOptions, Slice, SliceData,
};
use haul_pages::PageCheck;
use rustix::fs::Advice;

use super::changed::SliceOf;
use super::file::{STEP, changed, check_empty, data_runs, open, read_at};
use super::page_cache::{self, CachedFile};
use super::passing_choice::PassingChoice;
use super::prehash::Prehashed;
use crate::path::descriptors;
use crate::path::root::Root;
use crate::path::stat;
use crate::tree::local_tree::LocalTree;
use crate::walk::list;
use haul_ends::cache::Cache;
use haul_ends::thread_pool::ThreadPool;

/// Large files that are kept open between their slices.
const OPEN_FILES: usize = 64;

/// Reads files below a root.
pub(crate) struct Reader {
    open: Mutex<Cache<RelPath, Arc<CachedFile>>>,
    pool: BufferPool,
    prehashed: Prehashed,
    threads: ThreadPool,
    /// Checks the pages of database files.
    pages: Option<Arc<PageCheck>>,
    pub(super) passing: PassingChoice,
}

impl Reader {
    pub(crate) fn new(pool: BufferPool, threads: ThreadPool) -> Self {
        let files = descriptors::share(16).min(OPEN_FILES);
        Self {
            open: Mutex::new(Cache::new(files)),
            pool,
            prehashed: Prehashed::default(),
            threads,
            pages: None,
            passing: PassingChoice::default(),
        }
    }

    /// Memory for content. Blocks until some is free.
    pub(super) fn buffer(&self) -> Buffer {
        self.pool.take()
    }

    /// Checks pages of database files from now on.
    pub(crate) fn check_pages(&mut self, checks: Option<PageChecks>) {
        self.pages = checks.map(PageCheck::new);
    }

    /// The check of pages.
    pub(crate) fn pages(&self) -> Option<&Arc<PageCheck>> {
        self.pages.as_ref()
    }

    /// Reads every slice of a batch. Failed slices take no space in the content.
    pub(crate) fn read(&self, tree: &LocalTree, batch: &Arc<Batch>) -> BatchData {
        let mut content = if batch.entries.iter().all(|entry| entry.len == 0) {
            Buffer::default()
        } else {
            self.pool.take()
        };
        // Each slice has space for all of its bytes, so that several can be read at once.
        let lens: Vec<usize> = batch.iter().map(|(entry, slice)| slice.len_in(entry.len) as usize).collect();
        let Some(mut room) = content.grow(lens.iter().sum()) else {
            let error = |(entry, _): (&Arc<Entry>, Slice)| {
                let cause = "the batch is too large";
                Err(tree.root.fault(ErrorKind::Protocol, "read", &entry.path, cause))
            };
            let slices = batch.iter().map(error).collect();
            return BatchData { batch: batch.clone(), slices, content: Buffer::default(), at_hand: true };
        };
        let mut jobs = Vec::with_capacity(lens.len());
        for ((entry, slice), len) in batch.iter().zip(&lens) {
            let (part, rest) = std::mem::take(&mut room).split_at_mut(*len);
            jobs.push((entry, slice, Mutex::new(part)));
            room = rest;
        }
        let slices: Vec<Result<SliceData>> = self.threads.each(&jobs, |(entry, slice, part)| {
            let mut part = part.lock();
            let read = self.slice(tree, entry, *slice, &mut part);
            if let Err(error) = &read {
                self.forget_stale(entry, error);
            }
            read
        });
        drop(jobs);
        // Holes and failed slices leave gaps, which are closed.
        let (mut from, mut used) = (0, 0);
        for (slice, len) in slices.iter().zip(lens) {
            let read = slice.as_ref().map_or(0, |slice| slice.data_len() as usize);
            content.shift(from, used, read);
            from += len;
            used += read;
        }
        content.truncate(used);
        BatchData { batch: batch.clone(), slices, content, at_hand: true }
    }

    /// Reads the data of one slice into the beginning of `room`, which is as long as the slice.
    fn slice(&self, tree: &LocalTree, entry: &Entry, slice: Slice, room: &mut [u8]) -> Result<SliceData> {
        let root = &tree.root;
        let _doing = tree.doing("read", &entry.path);
        let opened = self.file(root, entry)?;
        let file = &opened.file;
        let (start, len) = (slice.start(), slice.len_in(entry.len));
        let extents = data_runs(root, entry, file, start, len)?;
        let drop_after = Self::drops_after(&opened, entry, slice);
        let value = read_and_hash(root, entry, &opened, (start, len), &extents, room)?;
        if entry.len == 0 {
            check_empty(root, entry, file)?;
        }
        if drop_after {
            page_cache::release(file, start, len);
        }
        self.check_unchanged(root, entry, file)?;
        Ok(SliceData { extents, value })
    }

    /// Whether the pages of a slice are dropped from the page cache once they were read. Asked before reading.
    pub(super) fn drops_after(opened: &CachedFile, entry: &Entry, slice: Slice) -> bool {
        match slice.part {
            Some(_) => opened.is_uncached_in_parts(entry.len, slice.index),
            None => opened.is_uncached(slice.start(), slice.len_in(entry.len)),
        }
    }

    /// After an error that may be temporary, the descriptor may be stale: the next attempt opens the file anew.
    pub(super) fn forget_stale(&self, entry: &Entry, error: &Error) {
        if error.retry() == Retry::Again {
            self.open.lock().forget(|path| *path == entry.path);
        }
    }

    /// Reads a batch of one slice of a large file. Only pages that differ from `pages`, those of the destination, are
    /// kept.
    pub(crate) fn read_changed(&self, tree: &LocalTree, batch: &Arc<Batch>, pages: &PageHashes) -> BatchData {
        let Some((entry, slice)) = batch.get(0).filter(|(entry, _)| entry.len > SLICE_LEN) else {
            return self.read(tree, batch);
        };
        let mut content = self.pool.take();
        // A slice fits into a buffer.
        let room = content.grow(slice.len_in(entry.len) as usize).unwrap_or_default();
        let read = self.changed_slice(&tree.root, entry, slice, pages, room);
        content.truncate(read.as_ref().map_or(0, |read| read.data_len() as usize));
        BatchData { batch: batch.clone(), slices: vec![read], content, at_hand: true }
    }

    fn changed_slice(
        &self,
        root: &Root,
        entry: &Entry,
        slice: Slice,
        pages: &PageHashes,
        room: &mut [u8],
    ) -> Result<SliceData> {
        let prehashed = self.prehashed.take(entry, slice);
        let opened = self.file(root, entry)?;
        let slice = SliceOf { root, entry, opened: &opened, slice };
        let data = match prehashed {
            Some(values) => slice.read_prehashed(&values, pages, room)?,
            None => slice.read_differing(pages, room)?,
        };
        self.check_unchanged(root, entry, &opened.file)?;
        Ok(data)
    }

    /// Hashes the large files below the root before they are asked for, until `stop` is set.
    pub(crate) fn prehash(
        &self,
        tree: &LocalTree,
        threads: &ThreadPool,
        options: &ScanOptions,
        stop: &AtomicBool,
    ) {
        let is_over = || self.prehashed.is_over(stop);
        let visit = |found: ScanBatch| {
            let large_files = found.entries.iter().filter(|entry| entry.is_file() && entry.len > SLICE_LEN);
            for entry in large_files.filter(|entry| !entry.is_sparse()) {
                if is_over() {
                    return ControlFlow::Break(());
                }
                self.prehashed.add(entry, stop, |index| self.page_values(tree, entry, index));
            }
            if is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        // The later scan reports errors.
        let _ = list::walk(tree, threads, None, options, &visit);
    }

    /// The chaining values of the pages of a slice.
    fn page_values(&self, tree: &LocalTree, entry: &Entry, index: u32) -> Result<Vec<ChainingValue>> {
        let _doing = tree.doing("read", &entry.path);
        let opened = self.file(&tree.root, entry)?;
        let slice = SliceOf { root: &tree.root, entry, opened: &opened, slice: Slice::whole(0, index) };
        slice.hash(&mut vec![0; STEP.min(slice_len(entry.len, index) as usize)])
    }

    /// Called after the bytes were read: a file with the size, time and inode of the scan was not written to before.
    ///
    /// # Errors
    /// `SourceChanged` if the file is not the one of the scan.
    pub(super) fn check_unchanged(&self, root: &Root, entry: &Entry, file: &File) -> Result<()> {
        root.ops.one();
        let is_same = stat::is_as_scanned(file, entry);
        if !is_same.map_err(|errno| root.error("read", &entry.path, errno))? {
            self.open.lock().forget(|path| *path == entry.path);
            return Err(changed(root, &entry.path));
        }
        Ok(())
    }

    /// The open file of an entry. Large files stay open between their slices.
    pub(crate) fn file(&self, root: &Root, entry: &Entry) -> Result<Arc<CachedFile>> {
        let large = entry.len > SLICE_LEN;
        if large && let Some(file) = self.open.lock().get(&entry.path) {
            return Ok(file);
        }
        let file = CachedFile::new(open(root, &entry.path)?, entry.len);
        let file = Arc::new(file.checked(root, &entry.path, entry.len, self.pages.as_ref())?);
        if !large {
            return Ok(file);
        }
        // Slices are read by several threads, each from front to back.
        let _ = rustix::fs::fadvise(&file.file, 0, None, Advice::Sequential);
        // The first thread to open the file has seen which pages were cached before this run read any.
        Ok(self.open.lock().put_new(entry.path.clone(), file))
    }
}

/// Reads the data of `len` bytes from `start` into the beginning of `room`, and hashes them, holes as zeros.
fn read_and_hash(
    root: &Root,
    entry: &Entry,
    opened: &CachedFile,
    (start, len): (u64, u64),
    extents: &[Extent],
    room: &mut [u8],
) -> Result<ChainingValue> {
    let mut hasher = SliceHasher::new(entry.len, start);
    let (mut at, mut used, mut are_good) = (0, 0, true);
    for extent in extents {
        hasher.update_zeros(u64::from(extent.start) - at);
        at = u64::from(extent.start) + u64::from(extent.len);
        let mut left = extent.len as usize;
        while left > 0 {
            let step = left.min(STEP);
            // Extents are within the slice.
            let bytes = &mut room[used..used + step];
            are_good &= read_at(root, entry, opened, bytes, start + at - left as u64)?;
            hasher.update(bytes);
            left -= step;
            used += step;
        }
    }
    hasher.update_zeros(len - at);
    opened.settle_pages(are_good)?;
    Ok(hasher.finish())
}
