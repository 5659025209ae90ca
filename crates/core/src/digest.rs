//! BLAKE3 of slices and, from their chaining values, of whole files.
//!
//! BLAKE3 is a binary tree over chunks of 1,024 bytes. A slice of [`SLICE_LEN`] bytes at a multiple of
//! [`SLICE_LEN`] is a complete subtree of it, so the slices of a file can be hashed in any order, anywhere, and
//! merged into the file's own digest: the one that `b3sum` prints. Source: the BLAKE3 paper, section 2, and the
//! `hazmat` module of the `blake3` crate.

use std::fmt;

use blake3::hazmat::{HasherExt, Mode, merge_subtrees_non_root};
use serde::{Deserialize, Serialize};

/// The bytes in a slice, the unit of digest, retry and resume: a power of two, so that a slice is one BLAKE3 subtree.
pub const SLICE_LEN: u64 = 4 * 1024 * 1024;
/// The parts of a whole slice. A part is a BLAKE3 subtree too, so that parts merge into the proof of their slice.
pub const PARTS: u8 = 4;
/// The bytes in a part of a slice.
pub const PART_LEN: u64 = SLICE_LEN / PARTS as u64;

/// The BLAKE3 digest of a whole file, as `b3sum` prints it.
///
/// Slices can be hashed in any order, also on different machines, and merge into the digest of the file:
///
/// ```
/// use haul_core::digest::{SLICE_LEN, SliceHasher, slice_count, slice_len};
/// use haul_core::{Digest, FileTree};
///
/// let content = vec![7; SLICE_LEN as usize + 1000];
/// let len = content.len() as u64;
/// let mut tree = FileTree::new(len);
/// for index in (0..slice_count(len)).rev() {
///     let start = u64::from(index) * SLICE_LEN;
///     let end = start + slice_len(len, index);
///     let mut hasher = SliceHasher::new(len, start);
///     hasher.update(&content[start as usize..end as usize]);
///     tree.set(index, hasher.finish());
/// }
/// assert_eq!(tree.digest(), Some(Digest::of(&content)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Parses 64 hexadecimal digits.
    #[must_use]
    pub fn from_hex(hex: &str) -> Option<Self> {
        blake3::Hash::from_hex(hex).ok().map(|hash| Self(*hash.as_bytes()))
    }
}

/// The SHA-256 of a file, for those who have to have it, and the BLAKE3 digest of the same bytes, which shows that they
/// are those that a copy has verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sha256 {
    /// The SHA-256 digest.
    pub sha256: [u8; 32],
    /// The BLAKE3 digest.
    pub blake3: Digest,
}

/// The bytes as lower-case hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The proof of one slice: the chaining value of its subtree, or the digest of the file if the slice is the whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
pub struct ChainingValue(pub [u8; 32]);

/// Hashes one slice incrementally, holes included.
pub struct SliceHasher {
    hasher: blake3::Hasher,
    whole_file: bool,
}

impl SliceHasher {
    /// Begins the slice at `offset`, a multiple of [`SLICE_LEN`], of a file of `file_len` bytes. In a file of several
    /// slices it may also be a part of a slice, at a multiple of [`PART_LEN`].
    #[must_use]
    pub fn new(file_len: u64, offset: u64) -> Self {
        let mut hasher = blake3::Hasher::new();
        let whole_file = file_len <= SLICE_LEN;
        if !whole_file {
            hasher.set_input_offset(offset);
        }
        Self { hasher, whole_file }
    }

    /// Begins a smaller subtree, at a multiple of its own size, of a file of several slices.
    pub(crate) fn part(offset: u64) -> Self {
        Self::new(u64::MAX, offset)
    }

    /// Adds the next bytes of the slice.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    /// Adds a hole: the next `len` bytes of the slice are zero.
    pub fn update_zeros(&mut self, mut len: u64) {
        static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
        while len > 0 {
            let n = len.min(ZEROS.len() as u64);
            self.hasher.update(&ZEROS[..n as usize]);
            len -= n;
        }
    }

    /// The proof of the slice. A slice beyond the end of its file has no bytes and no place in the hash tree: its proof
    /// is all zeros, which no content has.
    #[must_use]
    pub fn finish(&self) -> ChainingValue {
        if !self.whole_file && self.hasher.count() == 0 {
            // BLAKE3 panics here.
            ChainingValue::default()
        } else if self.whole_file {
            ChainingValue(*self.hasher.finalize().as_bytes())
        } else {
            ChainingValue(self.hasher.finalize_non_root())
        }
    }
}

/// The longest file whose slices can be numbered, in bytes: 16 PiB. [`crate::Entry::check`] refuses longer files before
/// any code counts their slices.
pub const MAX_FILE_LEN: u64 = u32::MAX as u64 * SLICE_LEN;

/// The number of slices of a file of `len` bytes, at most [`MAX_FILE_LEN`]. An empty file has one empty slice.
#[must_use]
pub fn slice_count(len: u64) -> u32 {
    u32::try_from(len.div_ceil(SLICE_LEN).max(1)).unwrap_or(u32::MAX)
}

/// The number of parts of slice `index` of a file of `len` bytes.
#[must_use]
pub fn part_count(len: u64, index: u32) -> u8 {
    // A slice is at most four parts long, so the number fits.
    slice_len(len, index).div_ceil(PART_LEN) as u8
}

/// The length in bytes of slice `index` of a file of `len` bytes.
#[must_use]
pub fn slice_len(len: u64, index: u32) -> u64 {
    len.saturating_sub(u64::from(index) * SLICE_LEN).min(SLICE_LEN)
}

/// Merges the chaining values of the equal parts of a slice into its proof. The size of a part is a power of two of
/// BLAKE3's chunks; the last part may be shorter. `None` if there are no parts. Not for the only slice of a file, whose
/// proof is a root hash.
#[must_use]
pub fn merge(parts: &[ChainingValue]) -> Option<ChainingValue> {
    let values: Vec<[u8; 32]> = parts.iter().map(|part| part.0).collect();
    (!values.is_empty()).then(|| ChainingValue(subtree(&values)))
}

/// The left child of a BLAKE3 parent has the largest power of two of leaves that leaves at least one for the right.
fn halves(values: &[[u8; 32]]) -> (&[[u8; 32]], &[[u8; 32]]) {
    values.split_at(values.len().next_power_of_two() / 2)
}

fn subtree(values: &[[u8; 32]]) -> [u8; 32] {
    match values {
        [only] => *only,
        more => {
            let (left, right) = halves(more);
            merge_subtrees_non_root(&subtree(left), &subtree(right), Mode::Hash)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileTree;

    fn tree_of(bytes: &[u8], order: impl Iterator<Item = u32>) -> Digest {
        let len = bytes.len() as u64;
        let mut tree = FileTree::new(len);
        for index in order {
            let start = u64::from(index) * SLICE_LEN;
            let part = &bytes[start as usize..(start + slice_len(len, index)) as usize];
            let mut hasher = SliceHasher::new(len, start);
            let (a, b) = part.split_at(part.len() / 3);
            hasher.update(a);
            hasher.update(b);
            tree.set(index, hasher.finish());
        }
        tree.digest().unwrap()
    }

    #[test]
    fn slices_in_any_order_give_the_digest_of_the_file() {
        let s = SLICE_LEN as usize;
        for len in [0, 1, 1024, s - 1, s, s + 1, 2 * s, 2 * s + 1, 3 * s, 5 * s + 7, 8 * s + 1025] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 31 + i / 4096) as u8).collect();
            let count = slice_count(len as u64);
            assert_eq!(tree_of(&bytes, 0..count), Digest::of(&bytes), "length {len}");
            assert_eq!(tree_of(&bytes, (0..count).rev()), Digest::of(&bytes), "length {len}, backwards");
        }
    }

    #[test]
    fn holes_hash_as_zeros() {
        let mut hasher = SliceHasher::new(100_000, 0);
        hasher.update(b"x");
        hasher.update_zeros(99_999);
        let mut plain = vec![0; 100_000];
        plain[0] = b'x';
        assert_eq!(hasher.finish().0, Digest::of(&plain).0);
    }

    #[test]
    fn a_slice_beyond_the_end_has_a_proof_that_no_content_has() {
        assert_eq!(SliceHasher::new(2 * SLICE_LEN, 2 * SLICE_LEN).finish(), ChainingValue::default());
    }

    #[test]
    fn slices_of_zeros_differ_by_their_offset() {
        // The number of each chunk is part of its value, so the proof of a hole cannot be a constant.
        let proof = |index: u64| {
            let mut hasher = SliceHasher::new(u64::MAX, index * SLICE_LEN);
            hasher.update_zeros(SLICE_LEN);
            hasher.finish()
        };
        assert!(proof(0) != proof(1) && proof(1) != proof(2));
    }
}
