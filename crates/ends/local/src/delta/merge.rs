//! Merging the pages that were sent with the unchanged pages of the old file.

use std::fs::File;
use std::os::unix::fs::FileExt;

use haul_core::delta::PAGE_LEN;
use haul_core::digest::merge;
use haul_core::{Buffer, BufferPool, ChainingValue, Extent, Ops, Slice, SliceData};

use crate::read::pages::PageValues;

/// Inserts the unchanged bytes of `base` into `content`, which holds the bytes that were sent of a slice. Bytes beyond
/// the end of `base` become zeros; verifying the slice shows that.
pub(crate) fn fill(
    ops: &Ops,
    content: &mut Buffer,
    slice: Slice,
    data: &SliceData,
    base: &File,
    pool: &BufferPool,
) {
    let (sent, same) = (data.data_len() as usize, data.same_len() as usize);
    if content.room() < same {
        // The buffer of a slice without sent bytes is empty.
        *content = pool.take();
    }
    if content.bytes().len() != sent || content.grow(same).is_none() {
        return;
    }
    // From the end, so that bytes are moved before they are overwritten.
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

/// The chaining value of a slice of `len` bytes from the bytes that were `sent` and from the values of its whole pages
/// as they were `reported`. `None` if the extents are not runs of whole pages, or bytes or values are missing.
pub(crate) fn proof(
    len: usize,
    slice: Slice,
    data: &SliceData,
    mut sent: &[u8],
    reported: &[ChainingValue],
) -> Option<ChainingValue> {
    let mut values = PageValues::new(slice.start());
    let mut at = 0;
    for extent in data.extents.iter().chain([&Extent::data(len as u32, 0)]) {
        let (from, to) = (extent.start as usize, extent.start as usize + extent.len as usize);
        // The last page of a file may be shorter.
        let ends_page = |end: usize| end.is_multiple_of(PAGE_LEN) || end == len;
        if from < at || to > len || !ends_page(from) || !ends_page(to) {
            return None;
        }
        values.zeros(from - at);
        if extent.same {
            if !to.is_multiple_of(PAGE_LEN) {
                return None;
            }
            values.known(reported.get(from / PAGE_LEN..to / PAGE_LEN)?);
        } else {
            let (bytes, rest) = sent.split_at_checked(to - from)?;
            values.hash(bytes, |_, _| ());
            sent = rest;
        }
        at = to;
    }
    merge(&values.into_vec())
}

#[cfg(test)]
mod tests {
    use haul_core::SLICE_LEN;
    use haul_core::delta::page_value;

    use super::*;

    #[test]
    fn sent_bytes_and_unchanged_bytes_are_merged() {
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
        assert_eq!(
            fill_with(vec![same(0, 2), data(2, 3)], b"ab"),
            "ab",
            "fewer bytes arrived than announced"
        );
    }

    #[test]
    fn a_slice_is_verified_by_its_pages() {
        let (page, len) = (PAGE_LEN as u32, 5 * PAGE_LEN - 100);
        let new: Vec<u8> = (0..len).map(|at| if at / PAGE_LEN == 1 { 0 } else { (at % 251) as u8 }).collect();
        let slice = Slice::whole(0, 1);
        let value = |bytes: &[u8], at: usize| page_value(SLICE_LEN + (at * PAGE_LEN) as u64, bytes);
        let reported: Vec<_> =
            new.chunks_exact(PAGE_LEN).enumerate().map(|(at, bytes)| value(bytes, at)).collect();
        let all: Vec<_> = new.chunks(PAGE_LEN).enumerate().map(|(at, bytes)| value(bytes, at)).collect();
        let same = |start, len| Extent { start, len, same: true };
        let of = |extents: Vec<Extent>, sent: &[u8]| {
            proof(len, slice, &SliceData { extents, value: ChainingValue::default() }, sent, &reported)
        };
        let tail = Extent::data(4 * page, page - 100);
        let sent = [&new[..PAGE_LEN], &new[4 * PAGE_LEN..]].concat();
        let parts = || vec![Extent::data(0, page), same(2 * page, 2 * page), tail];
        assert_eq!(of(parts(), &sent), merge(&all), "a sent page, a hole, unchanged pages, and the end");
        assert_ne!(of(parts(), &[&sent[1..], &[0]].concat()), merge(&all));
        assert_eq!(of(parts(), &sent[1..]), None, "sent bytes are missing");
        assert_eq!(of(vec![same(0, 5 * page - 100)], &[]), None, "the short last page was not reported");
        assert_eq!(of(vec![same(0, page - 1)], &[]), None);
        assert_eq!(of(vec![same(page, page), same(0, page)], &[]), None);
        assert_eq!(of(vec![same(4 * page, page)], &[]), None);
    }
}
