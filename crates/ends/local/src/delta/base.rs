//! The old versions of large files: their pages are reported to the source, and reused where unchanged.
//!
//! If a new file is made, nothing is remembered between the report and the arrival of a slice. The slice is assembled
//! from the old file as it is then, and verifying the whole slice shows whether the old file changed since. If it did,
//! the whole slice is sent again. If the file is updated in place, unchanged pages are in place already and are not
//! read twice.

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use haul_core::delta::PAGE_LEN;
use haul_core::digest::slice_len;
use haul_core::{
    ChainingValue, Delta, Entry, Extent, Ops, PageHashes, RelPath, SLICE_LEN, SinkOptions, Slice, SliceData,
};
use rustix::fs::{Mode, OFlags, Statx};

use super::share::shares_blocks;
use crate::path::root::Root;
use crate::path::{descriptors, stat};
use crate::read::file::STEP;
use crate::read::page_cache::{self, CachedFile};
use crate::read::pages::hash_pages;
use haul_ends::cache::Cache;

/// Old files that are kept open.
const OPEN_FILES: usize = 64;
/// Slices of a file whose page values are remembered, 8 KiB each: more than are reported ahead of their arrival.
const REMEMBERED: usize = 512;
/// Two sizes are alike if neither is more than this many times the other.
const ALIKE: u64 = 4;
/// After this many slices without a common page, the rest is not compared: the file was compressed anew, say.
const UNLIKE: u32 = 16;

/// The old version of a file.
pub(crate) struct DeltaBase {
    ops: Arc<Ops>,
    opened: CachedFile,
    len: u64,
    /// Some page was unchanged.
    alike: AtomicBool,
    /// Slices that were compared and nevertheless sent whole.
    whole: AtomicU32,
    /// For a file that is updated in place: the page values of slices that were reported and have not arrived.
    reported: Option<Mutex<HashMap<u32, Vec<ChainingValue>>>>,
}

/// The open old versions.
pub(crate) struct Bases(Mutex<Cache<RelPath, Arc<DeltaBase>>>);

impl Bases {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Cache::new(descriptors::share(16).min(OPEN_FILES))))
    }

    /// The old version of a large file, if the two are to be compared.
    pub(crate) fn of(&self, root: &Root, options: &SinkOptions, entry: &Entry) -> Option<Arc<DeltaBase>> {
        if options.delta == Delta::Never || entry.len <= SLICE_LEN {
            return None;
        }
        if let Some(base) = self.0.lock().get(&entry.path) {
            return Some(base);
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let file = File::from(root.at(&entry.path).ok()?.open(flags, Mode::empty()).ok()?);
        let now = stat::statx_file(&file).ok()?;
        if !is_compared(options, entry, &file, &now) {
            return None;
        }
        if options.in_place {
            page_cache::sync_in_place(&root.ops, &file);
        }
        let len = now.stx_size;
        let base = Arc::new(DeltaBase {
            ops: Arc::clone(&root.ops),
            opened: CachedFile::new(file, len),
            len,
            alike: AtomicBool::new(options.delta == Delta::Always),
            whole: AtomicU32::new(0),
            reported: options.in_place.then(Mutex::default),
        });
        Some(self.0.lock().put_new(entry.path.clone(), base))
    }

    /// Learns from a slice of a large file that arrived.
    pub(crate) fn arrived(&self, entry: &Entry, data: &SliceData) {
        if let Some(base) = self.0.lock().get(&entry.path) {
            if data.same_len() > 0 {
                base.alike.store(true, Ordering::Relaxed);
            } else if data.data_len() > 0 {
                base.whole.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Closes the old version of a file that was replaced.
    pub(crate) fn forget(&self, path: &RelPath) {
        self.0.lock().forget(|known| known == path);
    }
}

/// Whether the open file, whose metadata is `now`, is worth a comparison with its new version.
fn is_compared(options: &SinkOptions, entry: &Entry, file: &File, now: &Statx) -> bool {
    let len = now.stx_size;
    let alike = len <= entry.len.saturating_mul(ALIKE) && entry.len <= len.saturating_mul(ALIKE);
    let wanted = match options.delta {
        Delta::Never => false,
        Delta::Sharing => alike && (options.in_place || shares_blocks(file)),
        Delta::Alike => alike,
        Delta::Always => true,
    };
    wanted && stat::is_file(now) && len >= PAGE_LEN as u64
}

impl DeltaBase {
    pub(crate) fn file(&self) -> &File {
        &self.opened.file
    }

    /// The pages of these slices. Fewer if the file ends or cannot be read, none once the comparison proved useless.
    pub(crate) fn pages(&self, slices: Range<u32>) -> Vec<PageHashes> {
        let mut all = Vec::new();
        let mut bytes = vec![0; STEP];
        for index in slices {
            let is_useless =
                !self.alike.load(Ordering::Relaxed) && self.whole.load(Ordering::Relaxed) >= UNLIKE;
            match self.pages_of(index, &mut bytes) {
                Some(pages) if !is_useless => all.push(pages),
                _ => break,
            }
        }
        all
    }

    fn pages_of(&self, index: u32, bytes: &mut [u8]) -> Option<PageHashes> {
        let start = u64::from(index) * SLICE_LEN;
        let whole = slice_len(self.len, index) as usize / PAGE_LEN * PAGE_LEN;
        let read = |step: &mut [u8], at| {
            self.ops.one();
            self.file().read_exact_at(step, at)
        };
        // Pages that cannot be read here are sent.
        let all = [Extent::data(0, whole as u32)];
        let values = hash_pages(start, whole, &all, bytes, read, |_, _, _| false).ok()?;
        let mut pages = PageHashes::default();
        values.iter().for_each(|value| pages.push(value));
        if let Some(reported) = &self.reported {
            let mut reported = reported.lock();
            // Slices that arrived whole were not taken out. Forgotten ones are read again.
            if reported.len() >= REMEMBERED {
                reported.clear();
            }
            reported.insert(index, values);
        }
        (whole > 0).then_some(pages)
    }

    /// The chaining values of the whole pages of a slice as they were reported, once, if the file is updated in place.
    pub(crate) fn take_reported(&self, index: u32) -> Option<Vec<ChainingValue>> {
        self.reported.as_ref()?.lock().remove(&index)
    }

    /// Drops the pages of a slice that was read for the last time.
    pub(crate) fn release(&self, slice: Slice) {
        let start = slice.start();
        if self.opened.is_uncached(start, SLICE_LEN) {
            page_cache::release(self.file(), start, SLICE_LEN);
        }
    }
}

#[cfg(test)]
mod tests {
    use haul_core::{EntryKind, Side};

    use super::*;
    use crate::path::place::RootEntry as PlaceBase;

    const LEN: u64 = 2 * SLICE_LEN + 3 * PAGE_LEN as u64 + 5;

    fn scene(old_len: u64) -> (tempfile::TempDir, Root, Entry) {
        let dir = tempfile::tempdir().unwrap();
        File::create(dir.path().join("f")).unwrap().set_len(old_len).unwrap();
        let root = Root::new(PlaceBase::new(dir.path(), b"."), Side::Destination, Arc::default());
        (dir, root, Entry::new(RelPath::new(b"f").unwrap(), EntryKind::File, LEN))
    }

    fn options(delta: Delta, in_place: bool) -> SinkOptions {
        SinkOptions { delta, in_place, ..SinkOptions::default() }
    }

    #[test]
    fn a_file_is_compared_if_the_options_and_its_size_allow_it() {
        for (old_len, delta, in_place, is_compared) in [
            (LEN, Delta::Never, true, false),
            (LEN, Delta::Sharing, true, true),
            (LEN, Delta::Alike, false, true),
            (LEN / 5, Delta::Alike, false, false),
            (LEN * 5, Delta::Alike, false, false),
            (LEN / 5, Delta::Always, false, true),
            (PAGE_LEN as u64 - 1, Delta::Always, false, false),
        ] {
            let (_dir, root, entry) = scene(old_len);
            let base = Bases::new().of(&root, &options(delta, in_place), &entry);
            assert_eq!(base.is_some(), is_compared, "{old_len} {delta:?}");
            let small = Entry { len: SLICE_LEN, ..entry };
            assert!(Bases::new().of(&root, &options(delta, in_place), &small).is_none());
        }
    }

    #[test]
    fn whole_pages_are_reported_and_remembered_for_an_update_in_place() {
        let (_dir, root, entry) = scene(LEN);
        for in_place in [false, true] {
            let base = Bases::new().of(&root, &options(Delta::Always, in_place), &entry).unwrap();
            let pages = base.pages(1..9);
            let counts: Vec<_> = pages.iter().map(PageHashes::count).collect();
            assert_eq!(counts, [SLICE_LEN as usize / PAGE_LEN, 3], "up to the end of the file");
            let reported = base.take_reported(2);
            assert_eq!(reported.map(|values| values.len()), in_place.then_some(3));
            assert_eq!(base.take_reported(2), None, "given once");
        }
    }

    #[test]
    fn a_file_without_common_pages_is_no_longer_compared() {
        let (_dir, root, entry) = scene(LEN);
        let (bases, options) = (Bases::new(), options(Delta::Alike, false));
        let base = bases.of(&root, &options, &entry).unwrap();
        let data = |same| {
            let extents = vec![Extent { start: 0, len: 1, same }];
            SliceData { extents, value: ChainingValue::default() }
        };
        for _ in 0..UNLIKE {
            assert_eq!(base.pages(0..1).len(), 1);
            bases.arrived(&entry, &data(false));
        }
        assert_eq!(base.pages(0..1).len(), 0);
        bases.arrived(&entry, &data(true));
        assert_eq!(base.pages(0..1).len(), 1, "a common page was found after all");
        bases.forget(&entry.path);
        assert!(!Arc::ptr_eq(&base, &bases.of(&root, &options, &entry).unwrap()), "it is opened anew");
    }
}
