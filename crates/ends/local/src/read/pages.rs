//! Hashing a slice page by page.

use haul_core::ChainingValue;
use haul_core::Extent;
use haul_core::delta::{PAGE_LEN, SLICE_PAGES, page_value};

use super::file::STEP;

const _: () = assert!(STEP.is_multiple_of(PAGE_LEN), "no page is read in two steps");

/// The chaining values of the pages of a slice, collected from its beginning.
pub(crate) struct PageValues {
    values: Vec<ChainingValue>,
    /// The offset in the file of the next page.
    offset: u64,
}

impl PageValues {
    /// For a slice that begins at `offset` of its file.
    pub(crate) fn new(offset: u64) -> Self {
        Self { values: Vec::with_capacity(SLICE_PAGES), offset }
    }

    /// Hashes the pages of `bytes`, the next ones of the slice. `each` gets the place of each page in `bytes`, and its
    /// value.
    pub(crate) fn hash(&mut self, bytes: &[u8], mut each: impl FnMut(usize, &ChainingValue)) {
        let mut at = 0;
        for page in bytes.chunks(PAGE_LEN) {
            let value = page_value(self.offset, page);
            each(at, &value);
            self.values.push(value);
            self.offset += page.len() as u64;
            at += page.len();
        }
    }

    /// Adds pages of zeros: `len` bytes.
    pub(crate) fn zeros(&mut self, mut len: usize) {
        let zeros = [0; PAGE_LEN];
        while len > 0 {
            let page = PAGE_LEN.min(len);
            self.hash(&zeros[..page], |_, _| ());
            len -= page;
        }
    }

    /// Adds whole pages whose values are known.
    pub(crate) fn known(&mut self, values: &[ChainingValue]) {
        self.values.extend_from_slice(values);
        self.offset += (values.len() * PAGE_LEN) as u64;
    }

    pub(crate) fn into_vec(self) -> Vec<ChainingValue> {
        self.values
    }
}

/// Hashes the pages of `len` bytes from `start` of a file. `data` lists the runs of whole pages to be read; all else is
/// holes. `read` fills the bytes at an offset of the file, a step at a time, into `room`. `keep` gets the place of each
/// page in the slice, its length and value. The pages for which it returns `true` are left at the beginning of `room`,
/// which must hold them and one step more.
pub(crate) fn hash_pages<E>(
    start: u64,
    len: usize,
    data: &[Extent],
    room: &mut [u8],
    read: impl Fn(&mut [u8], u64) -> Result<(), E>,
    mut keep: impl FnMut(usize, usize, &ChainingValue) -> bool,
) -> Result<Vec<ChainingValue>, E> {
    let mut values = PageValues::new(start);
    let (mut at, mut used) = (0, 0);
    for extent in data {
        let (from, to) = (extent.start as usize, extent.start as usize + extent.len as usize);
        values.zeros(from - at);
        at = from;
        while at < to {
            let step = STEP.min(to - at);
            let bytes = &mut room[used..used + step];
            read(bytes, start + at as u64)?;
            let mut kept = Vec::new();
            values.hash(bytes, |page, value| {
                let len = PAGE_LEN.min(step - page);
                if keep(at + page, len, value) {
                    kept.push(page..page + len);
                }
            });
            let mut moved = 0;
            for page in kept {
                let len = page.len();
                bytes.copy_within(page, moved);
                moved += len;
            }
            used += moved;
            at += step;
        }
    }
    values.zeros(len - at);
    Ok(values.into_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_count_as_zeros_and_kept_pages_are_moved_together() {
        let page = PAGE_LEN;
        // Two pages of data, a hole of one, and more data than one step, with a short last page.
        let len = 3 * page + STEP + page + 5;
        let content: Vec<u8> =
            (0..len).map(|at| if at / page == 2 { 0 } else { (at / page % 250) as u8 + 1 }).collect();
        let runs = [Extent::data(0, 2 * page as u32), Extent::data(3 * page as u32, (len - 3 * page) as u32)];
        let read = |bytes: &mut [u8], at: u64| {
            assert!(bytes.len() <= STEP);
            bytes.copy_from_slice(&content[at as usize..at as usize + bytes.len()]);
            Ok::<_, ()>(())
        };
        let mut room = vec![0; len];
        let kept = [page, 5 * page, 3 * page + STEP + page];
        let values = hash_pages(0, len, &runs, &mut room, read, |at, _, _| kept.contains(&at)).unwrap();
        let mut at = 0;
        let wanted: Vec<_> = content
            .chunks(page)
            .map(|bytes| {
                at += bytes.len();
                page_value((at - bytes.len()) as u64, bytes)
            })
            .collect();
        assert_eq!(values, wanted);
        let expected = [&content[page..2 * page], &content[5 * page..6 * page], &content[len - 5..]].concat();
        assert!(room[..expected.len()] == expected);
        assert_eq!(hash_pages(0, len, &runs, &mut room, |_, _| Err(7), |_, _, _| false), Err(7));
    }
}
