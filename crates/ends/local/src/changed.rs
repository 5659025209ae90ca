//! Reading a slice of which the destination has pages: only what differs is kept.

use std::sync::Arc;

use haul_core::delta::{PAGE_LEN, SLICE_PAGES, page_value};
use haul_core::digest::merge;
use haul_core::{Batch, BatchData, Entry, Extent, PageHashes, Result, SLICE_LEN, Slice, SliceData};

use super::pagecache;
use super::read::{self, Reader, STEP};
use super::root::Root;

const _: () = assert!(STEP.is_multiple_of(PAGE_LEN), "no page is read in two steps");

impl Reader {
    /// As [`Reader::read`], for a batch of one slice of a large file.
    pub(super) fn read_changed(&self, root: &Root, batch: &Arc<Batch>, pages: &PageHashes) -> BatchData {
        let Some((entry, slice)) = batch.get(0).filter(|(entry, _)| entry.len > SLICE_LEN) else {
            return self.read(root, batch);
        };
        let mut content = self.pool.take();
        // A slice fits into a buffer.
        let room = content.grow(slice.len_in(entry.len) as usize).unwrap_or_default();
        let read = match self.early.take(entry, slice) {
            Some(values) => self.differing(root, entry, slice, (&values, pages), room),
            None => self.changed_slice(root, entry, slice, pages, room),
        };
        content.truncate(read.as_ref().map_or(0, |read| read.data_len() as usize));
        BatchData { batch: batch.clone(), slices: vec![read], content, at_hand: true }
    }

    /// Reads one slice; the pages that differ are in the beginning of `room` in the end, which has room for all.
    fn changed_slice(
        &self,
        root: &Root,
        entry: &Entry,
        slice: Slice,
        pages: &PageHashes,
        room: &mut [u8],
    ) -> Result<SliceData> {
        let opened = self.file(root, entry)?;
        let file = &opened.file;
        let start = slice.start();
        let len = room.len();
        let data = if entry.is_sparse() {
            let found = read::extents(&root.ops, file, start, len as u64);
            rounded(&found.map_err(|errno| root.error("read", &entry.path, errno))?, len)
        } else {
            read::whole(len as u64)
        };
        let ours = opened.is_ours(start, len as u64);
        let mut runs = Vec::new();
        let mut values = Vec::with_capacity(SLICE_PAGES);
        let (mut at, mut used) = (0, 0);
        let zeros = [0; PAGE_LEN];
        for extent in data.iter().chain([&Extent::data(len as u32, 0)]) {
            let (from, to) = (extent.start as usize, extent.start as usize + extent.len as usize);
            while at < from {
                let page = PAGE_LEN.min(len - at);
                values.push(page_value(start + at as u64, &zeros[..page]));
                at += page;
            }
            while at < to {
                let bytes = &mut room[used..used + STEP.min(to - at)];
                read::read_at(root, entry, file, bytes, start + at as u64)?;
                let mut kept = 0;
                for from in (0..bytes.len()).step_by(PAGE_LEN) {
                    let page = PAGE_LEN.min(bytes.len() - from);
                    let value = page_value(start + at as u64, &bytes[from..from + page]);
                    let same = page == PAGE_LEN && pages.has(at / PAGE_LEN, &value);
                    values.push(value);
                    add(&mut runs, at, page, same);
                    if !same {
                        bytes.copy_within(from..from + page, kept);
                        kept += page;
                    }
                    at += page;
                }
                used += kept;
            }
        }
        if ours {
            pagecache::release(file, start, len as u64);
        }
        self.is_unchanged(root, entry, file)?;
        Ok(SliceData { extents: runs, value: merge(&values).unwrap_or_default() })
    }
}

/// Runs of data as runs of whole pages, within `len` bytes.
fn rounded(extents: &[Extent], len: usize) -> Vec<Extent> {
    let mut runs = Vec::new();
    let mut end = 0;
    for extent in extents {
        let from = (extent.start as usize / PAGE_LEN * PAGE_LEN).max(end);
        end = (extent.start as usize + extent.len as usize).next_multiple_of(PAGE_LEN).min(len);
        if from < end {
            add(&mut runs, from, end - from, false);
        }
    }
    runs
}

/// Adds a run, which may go on what the last one was.
pub(super) fn add(runs: &mut Vec<Extent>, start: usize, len: usize, same: bool) {
    let (start, len) = (start as u32, len as u32);
    match runs.last_mut() {
        Some(last) if last.start + last.len == start && last.same == same => last.len += len,
        _ => runs.push(Extent { start, len, same }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_data_become_runs_of_pages() {
        let page = PAGE_LEN as u32;
        let data = [Extent::data(5, 10), Extent::data(page - 1, 1), Extent::data(3 * page + 7, page)];
        let runs = [Extent::data(0, page), Extent::data(3 * page, 2 * page - 9)];
        assert_eq!(rounded(&data, 5 * PAGE_LEN - 9), runs);
        let next = [Extent::data(0, page), Extent::data(page, 1)];
        assert_eq!(rounded(&next, 9 * PAGE_LEN), [Extent::data(0, 2 * page)]);
    }
}
