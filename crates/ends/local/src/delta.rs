//! What a large file replaces: its pages are told, and what is the same in the new one is taken from it.
//!
//! Where a new file is made nothing is remembered between the two: a slice is put together from the old file as it is then,
//! and whether it still was what was told shows when the whole slice is verified. If not, the slice is sent again, all of
//! it. Where the file is changed in place, what is the same is there already, and is not read twice.

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use haul_core::delta::{PAGE_LEN, SLICE_PAGES, page_value};
use haul_core::digest::{merge, slice_len};
use haul_core::{
    Buffer, BufferPool, ChainingValue, Delta, Entry, Extent, Ops, PageHashes, RelPath, SLICE_LEN,
    SinkOptions, Slice, SliceData,
};
use rustix::fs::{Mode, OFlags};

use super::descriptors;
use super::large;
use super::pagecache::{self, Opened};
use super::read::STEP;
use super::root::Root;
use super::stat;
use haul_ends::cache::Cache;

/// Old files that are kept open.
const OPEN_FILES: usize = 64;
/// Slices of a file whose pages are remembered, 8 KiB each: more than are asked about ahead of their coming.
const REMEMBERED: usize = 512;
/// Sizes are alike if none is so many times the other.
const ALIKE: u64 = 4;
/// So many slices without anything in common, and the rest is not compared: what was packed anew, say.
const UNLIKE: u32 = 16;

/// File systems whose files share blocks (`linux/magic.h`; the last two as the kernel module of OpenZFS and bcachefs
/// have it).
const SHARING: [u32; 4] = [0x9123_683E, 0x5846_5342, 0x2FC1_2FC1, 0xCA45_1A4E];

/// A file that is to be replaced.
pub(super) struct Base {
    ops: Arc<Ops>,
    opened: Opened,
    len: u64,
    /// Something of it was the same.
    alike: AtomicBool,
    /// Slices that came whole though they had been compared.
    whole: AtomicU32,
    /// The pages of slices that were told and did not come yet; of a file that is changed in place.
    told: Option<Mutex<HashMap<u32, Vec<ChainingValue>>>>,
}

/// Those that are open.
pub(super) struct Bases(Mutex<Cache<RelPath, Arc<Base>>>);

impl Bases {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Cache::new(descriptors::share(16).min(OPEN_FILES))))
    }

    fn lock(&self) -> haul_core::sync::MutexGuard<'_, Cache<RelPath, Arc<Base>>> {
        self.0.lock()
    }

    /// The file in the place of a large file one, if the two are to be compared.
    pub(super) fn of(&self, root: &Root, options: &SinkOptions, entry: &Entry) -> Option<Arc<Base>> {
        if options.delta == Delta::Never || entry.len <= SLICE_LEN {
            return None;
        }
        if let Some(base) = self.lock().get(&entry.path) {
            return Some(base);
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let file = File::from(root.at(&entry.path).ok()?.open(flags, Mode::empty()).ok()?);
        let now = stat::statx_file(&file).ok()?;
        let len = now.stx_size;
        let is_file = stat::is_file(&now);
        let alike = len <= entry.len.saturating_mul(ALIKE) && entry.len <= len.saturating_mul(ALIKE);
        let wanted = match options.delta {
            Delta::Never => false,
            Delta::Sharing => alike && (options.in_place || shares_blocks(&file)),
            Delta::Alike => alike,
            Delta::Always => true,
        };
        if !is_file || !wanted || len < PAGE_LEN as u64 {
            return None;
        }
        if options.in_place {
            large::settle_in_place(&root.ops, &file);
        }
        let (alike, whole) = (AtomicBool::new(options.delta == Delta::Always), AtomicU32::new(0));
        let told = options.in_place.then(Mutex::default);
        let (ops, opened) = (Arc::clone(&root.ops), Opened::new(file, len));
        let base = Arc::new(Base { ops, opened, len, alike, whole, told });
        Some(self.lock().put_new(entry.path.clone(), base))
    }

    /// Learns from a slice of a large file that came.
    pub(super) fn came(&self, entry: &Entry, data: &SliceData) {
        if let Some(base) = self.lock().get(&entry.path) {
            if data.same_len() > 0 {
                base.alike.store(true, Ordering::Relaxed);
            } else if data.data_len() > 0 {
                base.whole.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// The file has been replaced.
    pub(super) fn forget(&self, path: &RelPath) {
        self.lock().forget(|known| known == path);
    }
}

impl Base {
    pub(super) fn file(&self) -> &File {
        &self.opened.file
    }

    /// The pages of these slices; fewer where the file ends or cannot be read, none once it turned out to be of no use.
    pub(super) fn pages(&self, slices: Range<u32>) -> Vec<PageHashes> {
        let mut all = Vec::new();
        let mut bytes = vec![0; STEP];
        for index in slices {
            let of_no_use =
                !self.alike.load(Ordering::Relaxed) && self.whole.load(Ordering::Relaxed) >= UNLIKE;
            match self.pages_of(index, &mut bytes) {
                Some(pages) if !of_no_use => all.push(pages),
                _ => break,
            }
        }
        all
    }

    fn pages_of(&self, index: u32, bytes: &mut [u8]) -> Option<PageHashes> {
        let start = u64::from(index) * SLICE_LEN;
        let whole = slice_len(self.len, index) as usize / PAGE_LEN * PAGE_LEN;
        // What cannot be read is sent.
        let values = page_values(start..start + whole as u64, bytes, |step, at| {
            self.ops.one();
            self.file().read_exact_at(step, at)
        });
        let values = values.ok()?;
        let mut pages = PageHashes::default();
        values.iter().for_each(|value| pages.push(value));
        if let Some(told) = &self.told {
            let mut told = told.lock();
            // Those that came whole stay behind. What is forgotten is read again.
            if told.len() >= REMEMBERED {
                told.clear();
            }
            told.insert(index, values);
        }
        (whole > 0).then_some(pages)
    }

    /// The chaining values of the whole pages of a slice as they were told, once, if the file is changed in place.
    pub(super) fn take_told(&self, index: u32) -> Option<Vec<ChainingValue>> {
        self.told.as_ref()?.lock().remove(&index)
    }

    /// What was read of the slice for the last time need not stay in memory.
    pub(super) fn read_for_the_last_time(&self, slice: Slice) {
        let start = slice.start();
        if self.opened.is_ours(start, SLICE_LEN) {
            pagecache::release(self.file(), start, SLICE_LEN);
        }
    }
}

/// The chaining values of the pages in a range of a file, from the beginning of one; read in steps, into `bytes`.
pub(super) fn page_values<E>(
    range: Range<u64>,
    bytes: &mut [u8],
    read: impl Fn(&mut [u8], u64) -> Result<(), E>,
) -> Result<Vec<ChainingValue>, E> {
    let mut values = Vec::with_capacity(SLICE_PAGES);
    let mut at = range.start;
    while at < range.end {
        let step = STEP.min((range.end - at) as usize);
        let step = &mut bytes[..step];
        read(step, at)?;
        for page in step.chunks(PAGE_LEN) {
            values.push(page_value(at, page));
            at += page.len() as u64;
        }
    }
    Ok(values)
}

/// Whether files of the file system that `file` is on can share blocks.
pub(super) fn shares_blocks(file: &File) -> bool {
    // 32 bits, sign-extended on some architectures.
    rustix::fs::fstatfs(file).is_ok_and(|fs| SHARING.contains(&(fs.f_type as u32)))
}

/// Has the file system put slice `index` of `from` into `to`, by sharing its blocks. `false`: it is not there, or not
/// all of it.
pub(super) fn share(ops: &Ops, from: &File, to: &File, index: u32) -> bool {
    let start = u64::from(index) * SLICE_LEN;
    let (mut read, mut write) = (start, start);
    while read < start + SLICE_LEN {
        let left = (start + SLICE_LEN - read) as usize;
        ops.one();
        match rustix::fs::copy_file_range(from, Some(&mut read), to, Some(&mut write), left) {
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
    }
    true
}

/// Puts into `content`, which has what was sent of a slice, what is the same in `base`. Where that ends early is zeros:
/// the proof will tell.
pub(super) fn fill(
    ops: &Ops,
    content: &mut Buffer,
    slice: Slice,
    data: &SliceData,
    base: &File,
    pool: &BufferPool,
) {
    let (sent, same) = (data.data_len() as usize, data.same_len() as usize);
    if content.room() < same {
        // Of a slice of which nothing was sent nothing is held here.
        *content = pool.take();
    }
    if content.bytes().len() != sent || content.grow(same).is_none() {
        return;
    }
    // From the end, so that nothing is written over before it was moved.
    let (mut from, mut to) = (sent, sent + same);
    for extent in data.extents.iter().rev() {
        let len = extent.len as usize;
        to -= len;
        if !extent.same {
            from -= len;
            content.shift(from, to, len);
            continue;
        }
        let start = slice.start() + u64::from(extent.start);
        let bytes = &mut content.bytes_mut()[to..to + len];
        ops.one();
        if base.read_exact_at(bytes, start).is_err() {
            bytes.fill(0);
        }
    }
}

/// The proof of a slice from what was sent of it and from its pages as they were `told`. `None` if it cannot be had so.
pub(super) fn proof(
    len: usize,
    slice: Slice,
    data: &SliceData,
    mut sent: &[u8],
    told: &[ChainingValue],
) -> Option<ChainingValue> {
    let start = slice.start();
    let zeros = [0; PAGE_LEN];
    let mut values = Vec::with_capacity(SLICE_PAGES);
    let mut at = 0;
    for extent in data.extents.iter().chain([&Extent::data(len as u32, 0)]) {
        let (from, to) = (extent.start as usize, extent.start as usize + extent.len as usize);
        // The source tells runs of whole pages; the last one may be shorter.
        let whole = |end: usize| end.is_multiple_of(PAGE_LEN) || end == len;
        if from < at || to > len || !whole(from) || !whole(to) {
            return None;
        }
        while at < to.max(from) {
            let page = PAGE_LEN.min(len - at);
            values.push(if at < from {
                page_value(start + at as u64, &zeros[..page])
            } else if extent.same {
                *told.get(at / PAGE_LEN).filter(|_| page == PAGE_LEN)?
            } else {
                let (bytes, rest) = sent.split_at_checked(page)?;
                sent = rest;
                page_value(start + at as u64, bytes)
            });
            at += page;
        }
    }
    merge(&values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_and_what_is_there_are_put_together() {
        let old = tempfile::tempfile().unwrap();
        old.write_all_at(b"0123456789", 0).unwrap();
        let same = |start, len| Extent { start, len, same: true };
        let fill_with = |extents: Vec<Extent>, sent: &[u8]| {
            let pool = BufferPool::new(1 << 20);
            let mut content = if sent.is_empty() { Buffer::default() } else { pool.take() };
            if let Some(room) = content.grow(sent.len()) {
                room.copy_from_slice(sent);
            }
            let data = SliceData { extents, value: ChainingValue::default() };
            fill(&Ops::default(), &mut content, Slice::whole(0, 0), &data, &old, &pool);
            String::from_utf8(content.bytes().to_vec()).unwrap()
        };
        let data = Extent::data;
        assert_eq!(fill_with(vec![same(0, 2), data(2, 3), same(5, 1), data(7, 1)], b"abcd"), "01abc5d");
        assert_eq!(fill_with(vec![data(0, 1), same(1, 2), same(8, 2)], b"x"), "x1289");
        assert_eq!(fill_with(vec![same(4, 3)], b""), "456");
        assert_eq!(fill_with(vec![same(8, 3), data(11, 1)], b"z"), "\0\0\0z", "the old file is shorter now");
        assert_eq!(fill_with(vec![same(0, 2), data(2, 3)], b"ab"), "ab", "less came than was told");
    }

    #[test]
    fn a_slice_is_proved_by_its_pages() {
        let (page, len) = (PAGE_LEN as u32, 5 * PAGE_LEN - 100);
        let new: Vec<u8> = (0..len).map(|at| if at / PAGE_LEN == 1 { 0 } else { (at % 251) as u8 }).collect();
        let slice = Slice::whole(0, 1);
        let value = |bytes: &[u8], at: usize| page_value(SLICE_LEN + (at * PAGE_LEN) as u64, bytes);
        let told: Vec<_> =
            new.chunks_exact(PAGE_LEN).enumerate().map(|(at, bytes)| value(bytes, at)).collect();
        let all: Vec<_> = new.chunks(PAGE_LEN).enumerate().map(|(at, bytes)| value(bytes, at)).collect();
        let same = |start, len| Extent { start, len, same: true };
        let of = |extents: Vec<Extent>, sent: &[u8]| {
            proof(len, slice, &SliceData { extents, value: ChainingValue::default() }, sent, &told)
        };
        let tail = Extent::data(4 * page, page - 100);
        let sent = [&new[..PAGE_LEN], &new[4 * PAGE_LEN..]].concat();
        let parts = || vec![Extent::data(0, page), same(2 * page, 2 * page), tail];
        assert_eq!(
            of(parts(), &sent),
            merge(&all),
            "a page that came, a hole, what is the same, and the end"
        );
        assert_ne!(of(parts(), &[&sent[1..], &[0]].concat()), merge(&all));
        assert_eq!(of(parts(), &sent[1..]), None, "too little came");
        assert_eq!(of(vec![same(0, 5 * page - 100)], &[]), None, "the last page is none that was told");
        assert_eq!(of(vec![same(0, page - 1)], &[]), None);
        assert_eq!(of(vec![same(page, page), same(0, page)], &[]), None);
        assert_eq!(of(vec![same(4 * page, page)], &[]), None);
    }
}
