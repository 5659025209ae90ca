//! BLAKE3 of slices and, from their chaining values, of whole files.
//!
//! BLAKE3 is a binary tree over chunks of 1,024 bytes. A slice of [`SLICE_LEN`] bytes at a multiple of
//! [`SLICE_LEN`] is a complete subtree of it, so the slices of a file can be hashed in any order, anywhere, and
//! merged into the file's own digest: the one that `b3sum` prints. Source: the BLAKE3 paper, section 2, and the
//! `hazmat` module of the `blake3` crate.

use std::fmt;

use blake3::hazmat::{HasherExt, Mode, merge_subtrees_non_root};
use serde::{Deserialize, Serialize};

/// Bytes in a slice, the unit of digest, retry and resume. A power of two, so that a slice is one BLAKE3 subtree.
pub const SLICE_LEN: u64 = 4 * 1024 * 1024;
/// Bytes in a part of a slice: a subtree of the file's hash tree too, so that parts merge into the slice's proof.
pub const PART_LEN: u64 = SLICE_LEN / 4;

/// The BLAKE3 digest of a whole file, as `b3sum` prints it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of bytes in memory.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Reads 64 hexadecimal digits.
    #[must_use]
    pub fn from_hex(hex: &str) -> Option<Self> {
        blake3::Hash::from_hex(hex).ok().map(|hash| Self(*hash.as_bytes()))
    }
}

/// Lower-case hexadecimal digits.
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

/// The proof of one slice: the chaining value of its subtree, or, where the slice is the whole file, the file's
/// root hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
pub struct ChainingValue(pub [u8; 32]);

/// Hashes one slice piece by piece, holes included.
pub struct SliceHasher {
    hasher: blake3::Hasher,
    whole_file: bool,
}

impl SliceHasher {
    /// Begins the slice at `offset` (a multiple of [`SLICE_LEN`]) of a file of `file_len` bytes, or, where that is longer
    /// than a slice, a part of it at a multiple of [`PART_LEN`].
    #[must_use]
    pub fn new(file_len: u64, offset: u64) -> Self {
        let mut hasher = blake3::Hasher::new();
        let whole_file = file_len <= SLICE_LEN;
        if !whole_file {
            hasher.set_input_offset(offset);
        }
        Self { hasher, whole_file }
    }

    /// Begins a smaller part, at a multiple of its own size, of a file of more than one slice.
    pub(crate) fn part(offset: u64) -> Self {
        Self::new(u64::MAX, offset)
    }

    /// The next bytes of the slice.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    /// The next `len` bytes of the slice are zero: a hole.
    pub fn update_zeros(&mut self, mut len: u64) {
        static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
        while len > 0 {
            let n = len.min(ZEROS.len() as u64);
            self.hasher.update(&ZEROS[..n as usize]);
            len -= n;
        }
    }

    /// The slice's proof.
    #[must_use]
    pub fn finish(&self) -> ChainingValue {
        if self.whole_file {
            ChainingValue(*self.hasher.finalize().as_bytes())
        } else {
            ChainingValue(self.hasher.finalize_non_root())
        }
    }
}

/// The longest file whose slices can be numbered, in bytes: 16 PiB. Longer ones are refused by name
/// ([`crate::Entry::check`]) before anything counts their slices.
pub const MAX_FILE_LEN: u64 = u32::MAX as u64 * SLICE_LEN;

/// How many slices a file of `len` bytes, at most [`MAX_FILE_LEN`], has; an empty file has one, which is empty.
#[must_use]
pub fn slice_count(len: u64) -> u32 {
    u32::try_from(len.div_ceil(SLICE_LEN).max(1)).unwrap_or(u32::MAX)
}

/// How many parts slice `index` of a file of `len` bytes has.
#[must_use]
pub fn part_count(len: u64, index: u32) -> u8 {
    // No slice is longer than four of them.
    slice_len(len, index).div_ceil(PART_LEN) as u8
}

/// The length in bytes of slice `index` of a file of `len` bytes.
#[must_use]
pub fn slice_len(len: u64, index: u32) -> u64 {
    len.saturating_sub(u64::from(index) * SLICE_LEN).min(SLICE_LEN)
}

/// The proof of a slice from the chaining values of the equal parts that it consists of, whose size is a power of two
/// of BLAKE3's chunks; the last part may be shorter. `None` if there are none. Not for the only slice of a file.
#[must_use]
pub fn merge(parts: &[ChainingValue]) -> Option<ChainingValue> {
    let values: Vec<[u8; 32]> = parts.iter().map(|part| part.0).collect();
    (!values.is_empty()).then(|| ChainingValue(subtree(&values)))
}

/// A BLAKE3 parent's left side is the largest power of two of leaves that leaves something for the right.
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
    fn slices_of_zeros_differ_by_their_place() {
        // So what a hole proves has to be hashed: the number of each chunk is part of its value.
        let proof = |index: u64| {
            let mut hasher = SliceHasher::new(u64::MAX, index * SLICE_LEN);
            hasher.update_zeros(SLICE_LEN);
            hasher.finish()
        };
        assert!(proof(0) != proof(1) && proof(1) != proof(2));
    }
}
