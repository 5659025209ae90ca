//! The BLAKE3 digest of a stream whose slices arrive in order, hashed elsewhere or here.

use haul_core::digest::SliceHasher;
use haul_core::{ChainingValue, Digest, FileTree, SLICE_LEN};

use super::window::Fetched;

/// Merges the slices of a stream of known length.
pub(super) struct StreamTree {
    len: u64,
    tree: FileTree,
    /// The slice that comes next, or that was hashed here in part.
    index: u32,
    filled: u64,
    hasher: Option<SliceHasher>,
}

impl StreamTree {
    /// The tree of `len` bytes, before the first has come.
    pub(super) fn new(len: u64) -> Self {
        Self { len, tree: FileTree::new(len), index: 0, filled: 0, hasher: None }
    }

    /// Hashes the next bytes here.
    pub(super) fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let start = u64::from(self.index) * SLICE_LEN;
            let hasher = self.hasher.get_or_insert_with(|| SliceHasher::new(self.len, start));
            let (head, rest) = bytes.split_at(bytes.len().min((SLICE_LEN - self.filled) as usize));
            hasher.update(head);
            self.filled += head.len() as u64;
            if self.filled == SLICE_LEN || start + self.filled == self.len {
                let value = hasher.finish();
                (self.hasher, self.filled) = (None, 0);
                self.push(value);
            }
            bytes = rest;
        }
    }

    /// Adds a range: its value, if it was hashed, else its bytes.
    pub(super) fn add(&mut self, fetched: &Fetched) {
        match fetched.value {
            Some(value) => self.push(value),
            None => self.update(fetched.bytes()),
        }
    }

    /// Adds the value of the next slice, which begins where the last one ended.
    fn push(&mut self, value: ChainingValue) {
        self.tree.set(self.index, value);
        self.index = self.index.saturating_add(1);
    }

    /// The digest; `None` if not all slices have come.
    pub(super) fn digest(&self) -> Option<Digest> {
        if self.len == 0 { Some(Digest::of(b"")) } else { self.tree.digest() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slice hashed elsewhere follows one that was hashed here, in pieces of any length.
    #[test]
    fn slices_from_both_places_make_the_digest_of_the_stream() {
        for len in [0, 1, 5000, SLICE_LEN - 1, SLICE_LEN, SLICE_LEN + 1, 3 * SLICE_LEN + 7] {
            let bytes: Vec<u8> = (0..len).map(|at| (at % 253) as u8).collect();
            for here in 0..3 {
                let mut tree = StreamTree::new(len);
                for (index, slice) in bytes.chunks(SLICE_LEN as usize).enumerate() {
                    assert!(tree.digest().is_none());
                    if index % 3 == here {
                        slice.chunks(700_001).for_each(|piece| tree.update(piece));
                    } else {
                        let mut hasher = SliceHasher::new(len, index as u64 * SLICE_LEN);
                        hasher.update(slice);
                        tree.push(hasher.finish());
                    }
                }
                assert_eq!(tree.digest(), Some(Digest::of(&bytes)), "{len} bytes");
            }
        }
    }
}
