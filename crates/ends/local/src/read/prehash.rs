//! The values of large files that were hashed before the destination asks.
//!
//! While the client connects to a remote host, the CPU is idle. A login takes a second, and a GiB is read and hashed in
//! less.

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use haul_core::digest::slice_count;
use haul_core::entry::Identity;
use haul_core::{ChainingValue, Entry, RelPath, Result, Slice};

/// Slices that are hashed at most, with 8 KiB of values each.
const MAX_SLICES: usize = 4096;

/// The files that were hashed.
#[derive(Default)]
pub(super) struct Prehashed {
    files: Mutex<HashMap<RelPath, Hashed>>,
    slices: AtomicUsize,
}

/// The first slices of a file.
struct Hashed {
    /// The state of the file when it was hashed.
    identity: Identity,
    /// The chaining values of the pages of each slice.
    slices: Vec<Vec<ChainingValue>>,
}

impl Prehashed {
    /// The page values of a slice, once, if the file has not changed since they were hashed.
    pub(super) fn take(&self, entry: &Entry, slice: Slice) -> Option<Vec<ChainingValue>> {
        let mut files = self.files.lock();
        let hashed = files.get_mut(&entry.path)?;
        if hashed.identity != entry.identity() {
            files.remove(&entry.path);
            return None;
        }
        hashed.slices.get_mut(slice.index as usize).map(std::mem::take).filter(|values| !values.is_empty())
    }

    /// Whether `stop` is set, or no more slices may be hashed.
    pub(super) fn is_over(&self, stop: &AtomicBool) -> bool {
        stop.load(Ordering::Relaxed) || self.slices.load(Ordering::Relaxed) >= MAX_SLICES
    }

    /// Hashes the slices of a file with `hash`, up to the first error or until it is over.
    pub(super) fn add(
        &self,
        entry: &Entry,
        stop: &AtomicBool,
        hash: impl Fn(u32) -> Result<Vec<ChainingValue>>,
    ) {
        let mut slices = Vec::new();
        for index in (0..slice_count(entry.len)).take_while(|_| !self.is_over(stop)) {
            self.slices.fetch_add(1, Ordering::Relaxed);
            // The later transfer reports read errors.
            let Ok(values) = hash(index) else { break };
            slices.push(values);
        }
        self.files.lock().insert(entry.path.clone(), Hashed { identity: entry.identity(), slices });
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::FileExt;
    use std::path::Path;
    use std::sync::Arc;

    use haul_core::delta::{PAGE_LEN, page_value};
    use haul_core::digest::slice_len;
    use haul_core::{
        Batch, BatchData, BufferPool, ErrorKind, Ops, PageHashes, Place, PlaceRoot, SLICE_LEN, ScanOptions,
        SliceData, Source,
    };

    use super::*;
    use crate::open_source;

    const LEN: u64 = 2 * SLICE_LEN + 5 * PAGE_LEN as u64 + 77;

    fn source(path: &Path) -> Arc<dyn Source> {
        let place = Place { path: path.as_os_str().as_bytes().to_vec(), root: PlaceRoot::Exactly };
        open_source(
            &place,
            haul_core::Links::Kept,
            false,
            &BufferPool::new(1 << 26),
            &Arc::new(Ops::default()),
        )
        .unwrap()
    }

    /// Reads a slice for a destination that has it with another page 3.
    fn changed(source: &dyn Source, index: u32) -> Result<(SliceData, Vec<u8>)> {
        changed_of(source, Arc::new(source.root()?.unwrap()), index)
    }

    /// The same for the file in the state of `entry`.
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

    /// The byte that fills the page at `start`.
    fn content(start: u64) -> u8 {
        (start / PAGE_LEN as u64 % 251) as u8 + 1
    }

    /// Writes one byte, and restores the modification time.
    fn alter(file: &File, at: u64) {
        let time = file.metadata().unwrap().modified().unwrap();
        file.write_all_at(&[255], at).unwrap();
        file.set_modified(time).unwrap();
    }

    #[test]
    fn prehashed_pages_are_not_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let bytes: Vec<u8> = (0..LEN).map(content).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        let (prehashed, plain) = (source(&path), source(&path));
        prehashed.prehash(&ScanOptions::default(), &AtomicBool::new(false));
        // The entry as of before the change: the change gives the file another change time.
        let entry = Arc::new(prehashed.root().unwrap().unwrap());
        let changed = |source: &dyn Source, index| changed_of(source, entry.clone(), index);
        // Only the plain source reads page 7 of the first slice again, and notices the change.
        let before = changed(&*plain, 0).unwrap();
        alter(&file, 7 * PAGE_LEN as u64);
        assert_eq!(changed(&*prehashed, 0).unwrap(), before);
        assert_ne!(changed(&*plain, 0).unwrap(), before);
        assert_eq!(
            before.1,
            vec![content(3 * PAGE_LEN as u64); PAGE_LEN],
            "only the page that differs is sent"
        );
        assert_ne!(changed(&*prehashed, 0).unwrap(), before, "the second request reads the slice again");
        assert_eq!(changed(&*prehashed, 2).unwrap(), changed(&*plain, 2).unwrap(), "the last slice too");
        alter(&file, SLICE_LEN + 3 * PAGE_LEN as u64);
        let error = changed(&*prehashed, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SourceChanged, "a page to be sent has changed");
    }

    #[test]
    fn a_file_with_another_time_is_another_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, (0..LEN).map(content).collect::<Vec<u8>>()).unwrap();
        let prehashed = source(&path);
        prehashed.prehash(&ScanOptions::default(), &AtomicBool::new(false));
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[255], 7 * PAGE_LEN as u64).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(changed(&*prehashed, 0).unwrap(), changed(&*source(&path), 0).unwrap());
        let stopped = source(&path);
        stopped.prehash(&ScanOptions::default(), &AtomicBool::new(true));
        assert_eq!(changed(&*stopped, 0).unwrap(), changed(&*source(&path), 0).unwrap());
    }
}
