//! Reading the pages of a slice that the destination lacks.

use std::cell::Cell;

use haul_core::delta::{PAGE_LEN, page_value};
use haul_core::digest::merge;
use haul_core::{ChainingValue, Entry, Extent, PageHashes, Result, Slice, SliceData};

use super::file::{changed, data_runs, read_at, read_exactly};
use super::page_cache::{self, CachedFile};
use super::pages::hash_pages;
use crate::path::root::Root;

/// A slice of an open file.
pub(super) struct SliceOf<'a> {
    pub(super) root: &'a Root,
    pub(super) entry: &'a Entry,
    pub(super) opened: &'a CachedFile,
    pub(super) slice: Slice,
}

impl SliceOf<'_> {
    /// Fills `bytes`. `are_good` becomes false if pages in it are bad.
    fn read_at(&self, bytes: &mut [u8], offset: u64, are_good: &Cell<bool>) -> Result<()> {
        let good = read_at(self.root, self.entry, self.opened, bytes, offset)?;
        are_good.set(are_good.get() && good);
        Ok(())
    }

    /// The chaining values of all pages of the slice, read in steps into `room`.
    pub(super) fn hash(&self, room: &mut [u8]) -> Result<Vec<ChainingValue>> {
        let (start, len) = (self.slice.start(), self.slice.len_in(self.entry.len));
        let drop_after = self.opened.is_uncached(start, len);
        let all = [Extent::data(0, len as u32)];
        let are_good = Cell::new(true);
        let read = |bytes: &mut [u8], at| self.read_at(bytes, at, &are_good);
        let values = hash_pages(start, len as usize, &all, room, read, |_, _, _| false)?;
        self.opened.settle_pages(are_good.get())?;
        if drop_after {
            page_cache::release(&self.opened.file, start, len);
        }
        Ok(values)
    }

    /// Reads the whole slice. The pages that differ from `pages` are left at the beginning of `room`, which is as long
    /// as the slice.
    pub(super) fn read_differing(&self, pages: &PageHashes, room: &mut [u8]) -> Result<SliceData> {
        let (start, len) = (self.slice.start(), room.len());
        let file = &self.opened.file;
        let data = rounded(&data_runs(self.root, self.entry, file, start, len as u64)?, len);
        let drop_after = self.opened.is_uncached(start, len as u64);
        let mut runs = Vec::new();
        let are_good = Cell::new(true);
        let read = |bytes: &mut [u8], at| self.read_at(bytes, at, &are_good);
        let values = hash_pages(start, len, &data, room, read, |at, page, value| {
            let same = page == PAGE_LEN && pages.has(at / PAGE_LEN, value);
            add_run(&mut runs, at, page, same);
            !same
        })?;
        self.opened.settle_pages(are_good.get())?;
        if drop_after {
            page_cache::release(file, start, len as u64);
        }
        Ok(SliceData { extents: runs, value: merge(&values).unwrap_or_default() })
    }

    /// Reads only the pages that differ from `pages` into the beginning of `room`. `values` are the chaining values of
    /// the slice as it was hashed before.
    pub(super) fn read_prehashed(
        &self,
        values: &[ChainingValue],
        pages: &PageHashes,
        room: &mut [u8],
    ) -> Result<SliceData> {
        let start = self.slice.start();
        let (mut runs, mut used) = (Vec::new(), 0);
        for (number, value) in values.iter().enumerate() {
            let at = number * PAGE_LEN;
            let page = PAGE_LEN.min(room.len() - at);
            let same = page == PAGE_LEN && pages.has(number, value);
            add_run(&mut runs, at, page, same);
            if same {
                continue;
            }
            let bytes = &mut room[used..used + page];
            // Its pages were checked when it was hashed, and it is the same.
            read_exactly(self.root, self.entry, &self.opened.file, bytes, start + at as u64)?;
            if page_value(start + at as u64, bytes) != *value {
                return Err(changed(self.root, &self.entry.path));
            }
            used += page;
        }
        Ok(SliceData { extents: runs, value: merge(values).unwrap_or_default() })
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
            add_run(&mut runs, from, end - from, false);
        }
    }
    runs
}

/// Adds a run, or extends the last run if the new one continues it.
fn add_run(runs: &mut Vec<Extent>, start: usize, len: usize, same: bool) {
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
