//! Large files that are hashed before anybody asks: while the other end is not there yet, the processor has nothing to
//! do. A login over a distance takes a second, and a GiB is read and hashed in less.

use haul_core::sync::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use haul_core::delta::{PAGE_LEN, page_value};
use haul_core::digest::{merge, slice_count, slice_len};
use haul_core::entry::Identity;
use haul_core::{
    ChainingValue, Entry, PageHashes, RelPath, Result, SLICE_LEN, ScanBatch, ScanOptions, Slice, SliceData,
};

use super::changed::add;
use super::delta::page_values;
use super::read::{self, Reader, STEP};
use super::root::Root;
use super::{pagecache, walk};
use haul_ends::thread_pool::ThreadPool;

/// Slices that are hashed at most, 8 KiB of values each.
const MOST: usize = 4096;

/// What was hashed.
#[derive(Default)]
pub(super) struct Early {
    files: Mutex<HashMap<RelPath, Hashed>>,
    slices: AtomicUsize,
}

/// The first slices of a file.
struct Hashed {
    /// The file that it was then.
    identity: Identity,
    /// The chaining values of the pages of each slice.
    slices: Vec<Vec<ChainingValue>>,
}

impl Early {
    fn lock(&self) -> MutexGuard<'_, HashMap<RelPath, Hashed>> {
        self.files.lock()
    }

    /// The pages of a slice, once, if the file is still what it was when they were hashed.
    pub(super) fn take(&self, entry: &Entry, slice: Slice) -> Option<Vec<ChainingValue>> {
        let mut files = self.lock();
        let hashed = files.get_mut(&entry.path)?;
        if hashed.identity != entry.identity() {
            files.remove(&entry.path);
            return None;
        }
        hashed.slices.get_mut(slice.index as usize).map(std::mem::take).filter(|values| !values.is_empty())
    }

    /// Hashes the large files below a root, until `stop` is set.
    pub(super) fn hash(
        &self,
        root: &Root,
        threads: &ThreadPool,
        reader: &Reader,
        options: &ScanOptions,
        stop: &AtomicBool,
    ) {
        let is_over = || stop.load(Ordering::Relaxed) || self.slices.load(Ordering::Relaxed) >= MOST;
        let visit = |found: ScanBatch| {
            let large_files = found.entries.iter().filter(|entry| entry.is_file() && entry.len > SLICE_LEN);
            for entry in large_files.filter(|entry| !entry.is_sparse()) {
                if is_over() {
                    return ControlFlow::Break(());
                }
                let mut slices = Vec::new();
                let mut hash = |index| {
                    self.slices.fetch_add(1, Ordering::Relaxed);
                    slices.push(pages_of(root, reader, entry, index)?);
                    Ok(())
                };
                // What cannot be read is told of when it is asked for.
                let _: Result<()> =
                    (0..slice_count(entry.len)).take_while(|_| !is_over()).try_for_each(&mut hash);
                self.lock().insert(entry.path.clone(), Hashed { identity: entry.identity(), slices });
            }
            if is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        // So is what cannot be looked at.
        let _ = walk::walk(root, threads, None, options, &visit);
    }
}

/// The chaining values of the pages of a slice.
fn pages_of(root: &Root, reader: &Reader, entry: &Entry, index: u32) -> Result<Vec<ChainingValue>> {
    let _doing = root.doing("read", &entry.path);
    let opened = reader.file(root, entry)?;
    let (start, len) = (u64::from(index) * SLICE_LEN, slice_len(entry.len, index));
    let ours = opened.is_ours(start, len);
    let read = |step: &mut [u8], at| read::read_at(root, entry, &opened.file, step, at);
    let values = page_values(start..start + len, &mut vec![0; STEP.min(len as usize)], read)?;
    if ours {
        pagecache::release(&opened.file, start, len);
    }
    Ok(values)
}

impl Reader {
    /// Reads of a slice only the pages that differ from those of the destination, into the beginning of `room`. `values`
    /// are those of the slice as it was hashed before.
    pub(super) fn differing(
        &self,
        root: &Root,
        entry: &Entry,
        slice: Slice,
        (values, pages): (&[ChainingValue], &PageHashes),
        room: &mut [u8],
    ) -> Result<SliceData> {
        let opened = self.file(root, entry)?;
        let start = slice.start();
        let (mut runs, mut used) = (Vec::new(), 0);
        for (number, value) in values.iter().enumerate() {
            let at = number * PAGE_LEN;
            let page = PAGE_LEN.min(room.len() - at);
            let same = page == PAGE_LEN && pages.has(number, value);
            add(&mut runs, at, page, same);
            if same {
                continue;
            }
            let bytes = &mut room[used..used + page];
            read::read_at(root, entry, &opened.file, bytes, start + at as u64)?;
            if page_value(start + at as u64, bytes) != *value {
                return Err(read::changed(root, &entry.path));
            }
            used += page;
        }
        self.is_unchanged(root, entry, &opened.file)?;
        Ok(SliceData { extents: runs, value: merge(values).unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::FileExt;
    use std::path::Path;
    use std::sync::Arc;

    use haul_core::{Batch, BatchData, BufferPool, ErrorKind, Ops, Place, PlaceRoot, Source};

    use super::*;
    use crate::open_source;

    const LEN: u64 = 2 * SLICE_LEN + 5 * PAGE_LEN as u64 + 77;

    fn source(path: &Path) -> Arc<dyn Source> {
        let place = Place { path: path.as_os_str().as_bytes().to_vec(), root: PlaceRoot::Exactly };
        open_source(&place, false, &BufferPool::new(1 << 26), &Arc::new(Ops::default())).unwrap()
    }

    /// Reads a slice as it is asked for where the destination has it with page 3 changed.
    fn changed(source: &dyn Source, index: u32) -> Result<(SliceData, Vec<u8>)> {
        changed_of(source, Arc::new(source.root()?.unwrap()), index)
    }

    /// The same of the file as it was found before.
    fn changed_of(source: &dyn Source, entry: Arc<Entry>, index: u32) -> Result<(SliceData, Vec<u8>)> {
        let mut pages = PageHashes::default();
        for page in 0..slice_len(LEN, index) as usize / PAGE_LEN {
            let start = u64::from(index) * SLICE_LEN + (page * PAGE_LEN) as u64;
            let byte = if page == 3 { 0 } else { content(start) };
            pages.push(&page_value(start, &[byte; PAGE_LEN]));
        }
        let batch = Batch { entries: vec![entry], slices: vec![Slice::whole(0, index)], again: false };
        let BatchData { mut slices, content, .. } = source.read_changed(&Arc::new(batch), &pages)?;
        Ok((slices.remove(0)?, content.bytes().to_vec()))
    }

    /// What all bytes of the page at `start` are.
    fn content(start: u64) -> u8 {
        (start / PAGE_LEN as u64 % 251) as u8 + 1
    }

    /// Writes one byte, and sets the time to what it was.
    fn alter(file: &File, at: u64) {
        let time = file.metadata().unwrap().modified().unwrap();
        file.write_all_at(&[255], at).unwrap();
        file.set_modified(time).unwrap();
    }

    #[test]
    fn what_was_hashed_before_is_read_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let bytes: Vec<u8> = (0..LEN).map(content).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        let (early, plain) = (source(&path), source(&path));
        early.prehash(&ScanOptions::default(), &AtomicBool::new(false));
        // As it was found before it is altered: after that, its change time is another.
        let entry = Arc::new(early.root().unwrap().unwrap());
        let changed = |source: &dyn Source, index| changed_of(source, entry.clone(), index);
        // Page 7 of the first slice is not looked at again: that is all that tells the two apart.
        let before = changed(&*plain, 0).unwrap();
        alter(&file, 7 * PAGE_LEN as u64);
        assert_eq!(changed(&*early, 0).unwrap(), before);
        assert_ne!(changed(&*plain, 0).unwrap(), before);
        assert_eq!(
            before.1,
            vec![content(3 * PAGE_LEN as u64); PAGE_LEN],
            "only the page that differs is sent"
        );
        assert_ne!(changed(&*early, 0).unwrap(), before, "asked for again, it is read again");
        assert_eq!(changed(&*early, 2).unwrap(), changed(&*plain, 2).unwrap(), "also where the file ends");
        alter(&file, SLICE_LEN + 3 * PAGE_LEN as u64);
        let error = changed(&*early, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SourceChanged, "a page that is to be sent is not what it was");
    }

    #[test]
    fn a_file_with_another_time_is_another_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, (0..LEN).map(content).collect::<Vec<u8>>()).unwrap();
        let early = source(&path);
        early.prehash(&ScanOptions::default(), &AtomicBool::new(false));
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[255], 7 * PAGE_LEN as u64).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(changed(&*early, 0).unwrap(), changed(&*source(&path), 0).unwrap());
        let stopped = source(&path);
        stopped.prehash(&ScanOptions::default(), &AtomicBool::new(true));
        assert_eq!(changed(&*stopped, 0).unwrap(), changed(&*source(&path), 0).unwrap());
    }
}
