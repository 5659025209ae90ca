//! Slices that arrive in parts.

use std::collections::HashMap;

use crate::digest::{ChainingValue, PARTS, merge, part_count};
use crate::slice::Slice;

/// The proofs of parts, until their slices have all of them.
#[derive(Default)]
pub struct SliceParts(HashMap<u32, [Option<ChainingValue>; PARTS as usize]>);

impl SliceParts {
    /// Whether some parts of the slice are there.
    #[must_use]
    pub fn has_some(&self, index: u32) -> bool {
        self.0.contains_key(&index)
    }

    /// The proof of a slice of a file of `len` bytes, by that of the slice or of its last missing part; `None` while
    /// parts are missing.
    pub fn whole(&mut self, slice: Slice, len: u64, value: ChainingValue) -> Option<ChainingValue> {
        let Some(part) = slice.part else { return Some(value) };
        let parts = self.0.entry(slice.index).or_default();
        *parts.get_mut(usize::from(part))? = Some(value);
        let found: Vec<_> = parts.iter().map_while(|part| *part).collect();
        if found.len() < usize::from(part_count(len, slice.index)) {
            return None;
        }
        self.0.remove(&slice.index);
        merge(&found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::{PART_LEN, SLICE_LEN, SliceHasher};

    #[test]
    fn parts_in_any_order_make_the_proof_of_their_slice_once_all_are_there() {
        let content: Vec<u8> = (0..SLICE_LEN).map(|at| (at * 31 + at / 4096) as u8).collect();
        let len = 2 * SLICE_LEN + PART_LEN + 7;
        let value = |from: u64, bytes: u64| {
            let mut hasher = SliceHasher::new(len, from);
            hasher.update(&content[(from % SLICE_LEN) as usize..][..bytes as usize]);
            hasher.finish()
        };
        let part = |index, part| Slice { part: Some(part), ..Slice::whole(0, index) };
        let of = |slice: Slice| value(slice.start(), slice.len_in(len));
        let mut parts = SliceParts::default();
        let mut add = |slice| parts.whole(slice, len, of(slice));
        for at in [part(1, 3), part(2, 1), part(1, 0), part(1, 0), part(1, 2)] {
            assert_eq!(add(at), None);
        }
        assert_eq!(add(part(1, 1)), Some(of(Slice::whole(0, 1))));
        assert_eq!(add(part(2, 0)), Some(of(Slice::whole(0, 2))), "the last slice has two parts");
        assert_eq!(add(Slice::whole(0, 0)), Some(of(Slice::whole(0, 0))));
        assert_eq!(add(part(0, 4)), None, "no slice has a fifth part");
    }
}
