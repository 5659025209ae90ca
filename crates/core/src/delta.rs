//! Delta transfer: large files of source and destination are compared page by page, at fixed offsets.
//!
//! Like a slice, a page is a subtree of the BLAKE3 tree of its file, so the chaining values of the pages merge into the
//! proof of their slice, and no byte is hashed twice.

use serde::{Deserialize, Serialize};

use crate::digest::{ChainingValue, SLICE_LEN, SliceHasher};

/// The bytes in a page: databases change pages of 4 to 16 KiB, and the hash that is sent is a two-thousandth of it.
pub const PAGE_LEN: usize = 16 * 1024;
/// The pages in a slice.
pub const SLICE_PAGES: usize = SLICE_LEN as usize / PAGE_LEN;
/// The bytes of a chaining value that are sent. Two different pages agree in them once in 10¹⁹; the verification of the
/// whole slice finds that. A longer prefix would delay every comparison, which begins when the hashes have arrived.
const DIGEST_LEN: usize = 8;

/// Which existing files are compared page by page with their replacements, of those longer than [`SLICE_LEN`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum Delta {
    /// None.
    #[default]
    Never,
    /// Files of similar size, where that saves writing: the file system shares blocks, or the file is modified in
    /// place.
    Sharing,
    /// Files of similar size.
    Alike,
    /// All existing files.
    Always,
}

/// The hashes of the pages of one slice that the destination has, from the beginning of the slice; whole pages only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct PageHashes(#[serde(with = "serde_bytes")] Vec<u8>);

impl PageHashes {
    /// The most bytes for one slice.
    pub const MAX_LEN: usize = SLICE_PAGES * DIGEST_LEN;

    /// Adds the hash of the next page.
    pub fn push(&mut self, value: &ChainingValue) {
        self.0.extend_from_slice(&value.0[..DIGEST_LEN]);
    }

    /// Whether there is a hash of page `at`, and it is that of this chaining value.
    #[must_use]
    pub fn has(&self, at: usize, value: &ChainingValue) -> bool {
        let hash = at.checked_mul(DIGEST_LEN).and_then(|from| self.0.get(from..from + DIGEST_LEN));
        hash == Some(&value.0[..DIGEST_LEN])
    }

    /// The number of pages.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len() / DIGEST_LEN
    }

    /// Whether all hashes are whole, and not more than a slice has pages: a peer may send anything.
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
    fn pages_are_identified_by_a_prefix_of_their_value() {
        let mut pages = PageHashes::default();
        pages.push(&ChainingValue([1; 32]));
        pages.push(&ChainingValue([2; 32]));
        assert!(pages.is_sound() && pages.count() == 2);
        assert!(pages.has(1, &ChainingValue([2; 32])) && !pages.has(0, &ChainingValue([2; 32])));
        assert!(!pages.has(2, &ChainingValue([2; 32])) && !pages.has(usize::MAX, &ChainingValue([2; 32])));
        assert!(!PageHashes(vec![0; 7]).is_sound() && !PageHashes(vec![0; 8 * 257]).is_sound());
    }
}
