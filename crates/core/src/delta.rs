//! Big files that changed a little: what is there is compared with what is to be, page by page at fixed places.
//!
//! A page is a subtree of its file's BLAKE3 tree, as a slice is, only smaller. So who hashes pages has hashed the
//! slice too: their chaining values merge into its proof.

use serde::{Deserialize, Serialize};

use crate::digest::{ChainingValue, SLICE_LEN, SliceHasher};

/// Bytes in a page: small, as a database changes pages of 4 to 16 KiB; and what is told of it is a thousandth of it.
pub const PAGE_LEN: usize = 16 * 1024;
/// Pages in a slice.
pub const SLICE_PAGES: usize = SLICE_LEN as usize / PAGE_LEN;
/// Bytes that are told of a page's chaining value. Two pages that agree in so much and differ, one in 10¹⁹, are found when
/// the whole slice is verified. More would be round trips: what is told is what a comparison begins with.
const DIGEST_LEN: usize = 8;

/// When a file that is there is compared by pages with what is to replace it. Only files of more than
/// [`SLICE_LEN`] bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum Delta {
    /// Never.
    #[default]
    Never,
    /// Where it is of like size, and saves writing: its file system shares blocks, or it is changed in place.
    Sharing,
    /// Where it is of like size.
    Alike,
    /// Wherever one is.
    Always,
}

/// What a destination tells of the pages of one slice of a file that it has, from the slice's beginning; only of whole
/// pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct PageHashes(#[serde(with = "serde_bytes")] Vec<u8>);

impl PageHashes {
    /// Bytes that are told of a slice, at most.
    pub const MAX_LEN: usize = SLICE_PAGES * DIGEST_LEN;

    /// Adds the next page.
    pub fn push(&mut self, value: &ChainingValue) {
        self.0.extend_from_slice(&value.0[..DIGEST_LEN]);
    }

    /// Whether page `at` is there and has this chaining value.
    #[must_use]
    pub fn has(&self, at: usize, value: &ChainingValue) -> bool {
        let told = at.checked_mul(DIGEST_LEN).and_then(|from| self.0.get(from..from + DIGEST_LEN));
        told == Some(&value.0[..DIGEST_LEN])
    }

    /// How many pages are told of.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len() / DIGEST_LEN
    }

    /// Whether they are whole ones, and no more than a slice has. What comes from a wire may be anything.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.0.len().is_multiple_of(DIGEST_LEN) && self.count() <= SLICE_PAGES
    }
}

/// The chaining value of the page at `offset` (a multiple of [`PAGE_LEN`]) of a file of more than [`SLICE_LEN`] bytes.
/// The last page of a file may be shorter.
#[must_use]
pub fn page_value(offset: u64, bytes: &[u8]) -> ChainingValue {
    let mut hasher = SliceHasher::part(offset);
    hasher.update(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::{merge, slice_len};

    #[test]
    fn pages_merge_into_the_proof_of_their_slice() {
        let len = SLICE_LEN + 5 * PAGE_LEN as u64 + 77;
        let bytes: Vec<u8> = (0..len).map(|i| (i * 31 + i / 4096) as u8).collect();
        for index in 0..2 {
            let start = (u64::from(index) * SLICE_LEN) as usize;
            let slice = &bytes[start..start + slice_len(len, index) as usize];
            let pages = slice.chunks(PAGE_LEN).enumerate();
            let values: Vec<_> =
                pages.map(|(at, page)| page_value((start + at * PAGE_LEN) as u64, page)).collect();
            let mut whole = SliceHasher::new(len, start as u64);
            whole.update(slice);
            assert_eq!(merge(&values), Some(whole.finish()), "slice {index}");
        }
    }

    #[test]
    fn pages_are_told_by_a_part_of_their_value() {
        let mut pages = PageHashes::default();
        pages.push(&ChainingValue([1; 32]));
        pages.push(&ChainingValue([2; 32]));
        assert!(pages.is_sound() && pages.count() == 2);
        assert!(pages.has(1, &ChainingValue([2; 32])) && !pages.has(0, &ChainingValue([2; 32])));
        assert!(!pages.has(2, &ChainingValue([2; 32])) && !pages.has(usize::MAX, &ChainingValue([2; 32])));
        assert!(!PageHashes(vec![0; 7]).is_sound() && !PageHashes(vec![0; 8 * 257]).is_sound());
    }
}
