//! The hash tree of one file, built slice by slice.

use std::collections::BTreeMap;
use std::ops::Range;

use blake3::hazmat::{Mode, merge_subtrees_non_root, merge_subtrees_root};

use crate::digest::{ChainingValue, Digest, slice_count};

/// Collects the chaining values of a file's slices, in any order, into the file's digest.
///
/// It stores one value for each complete subtree, not for each slice: two adjacent subtrees of the same size merge into their
/// parent as soon as both are known. Its memory depends on the gaps between the known slices, and not on the claimed
/// length of the file: slices in order take a few dozen values.
///
/// ```
/// use haul_core::digest::SLICE_LEN;
/// use haul_core::{ChainingValue, FileTree};
///
/// let mut tree = FileTree::new(3 * SLICE_LEN);
/// tree.set(2, ChainingValue([2; 32]));
/// tree.set(0, ChainingValue([0; 32]));
/// assert_eq!(tree.known(), [0..1, 2..3]);
/// assert_eq!((tree.missing(), tree.digest()), (1, None));
/// tree.set(1, ChainingValue([1; 32]));
/// assert!(tree.digest().is_some());
/// ```
#[derive(Clone, Debug)]
pub struct FileTree {
    count: u32,
    missing: u32,
    /// Complete subtrees by their first slice. They do not overlap.
    done: BTreeMap<u32, Subtree>,
}

#[derive(Clone, Copy, Debug)]
struct Subtree {
    /// The subtree covers `1 << level` slices.
    level: u8,
    value: [u8; 32],
}

impl Subtree {
    /// One after the last slice of the subtree that begins at `first`.
    fn end(self, first: u32) -> u64 {
        u64::from(first) + (1 << self.level)
    }
}

impl FileTree {
    /// The tree of a file of `len` bytes, of which no slice is known.
    #[must_use]
    pub fn new(len: u64) -> Self {
        let count = slice_count(len);
        Self { count, missing: count, done: BTreeMap::new() }
    }

    /// Records the value of one slice. An index out of range is ignored. A later value replaces an earlier one only
    /// until the slice is merged into a larger subtree, so a writer must not write a slice again that is known
    /// ([`Self::has`]).
    pub fn set(&mut self, index: u32, value: ChainingValue) {
        if index >= self.count {
            return;
        }
        if let Some((first, subtree)) = self.covering(index) {
            if subtree.level == 0 {
                self.done.insert(first, Subtree { level: 0, value: value.0 });
            }
            return;
        }
        self.missing -= 1;
        let (mut first, mut level, mut value) = (index, 0_u8, value.0);
        // The two halves of the file do not merge here: their parent is the root, which is hashed in another way.
        while 2_u64 << level < u64::from(self.count) {
            let other = first ^ (1 << level);
            let Some(beside) = self.done.get(&other).filter(|beside| beside.level == level) else { break };
            let (left, right) = if other < first { (&beside.value, &value) } else { (&value, &beside.value) };
            let merged = merge_subtrees_non_root(left, right, Mode::Hash);
            self.done.remove(&other);
            (first, level, value) = (first.min(other), level + 1, merged);
        }
        self.done.insert(first, Subtree { level, value });
    }

    /// The file ends at `len` bytes, which was not known before ([`crate::entry::GROWING`]): its last slice is missing.
    /// Slices from there on are forgotten, and so is a subtree that would be the whole file, whose root is hashed in
    /// another way.
    pub fn end_at(&mut self, len: u64) {
        let count = u64::from(slice_count(len));
        self.done.retain(|first, subtree| subtree.end(*first) <= count && 1 << subtree.level < count);
        self.count = slice_count(len);
        let known: u32 = self.done.values().map(|subtree| 1 << subtree.level).sum();
        self.missing = self.count - known;
    }

    /// The complete subtree that covers slice `index`.
    fn covering(&self, index: u32) -> Option<(u32, Subtree)> {
        let (first, subtree) = self.done.range(..=index).next_back()?;
        (u64::from(index) < subtree.end(*first)).then_some((*first, *subtree))
    }

    /// Whether the value of slice `index` is known.
    #[must_use]
    pub fn has(&self, index: u32) -> bool {
        self.covering(index).is_some()
    }

    /// The number of slices that are not known.
    #[must_use]
    pub fn missing(&self) -> u32 {
        self.missing
    }

    /// The known slices as ranges. If all slices are known, the last one is omitted, so that one slice has to be sent,
    /// which completes the file.
    #[must_use]
    pub fn resumable(&self) -> Vec<Range<u32>> {
        let mut ranges = self.known();
        if self.missing() == 0
            && let Some(last) = ranges.last_mut()
        {
            last.end -= 1;
            if last.start >= last.end {
                ranges.pop();
            }
        }
        ranges
    }

    /// The known slices, as ascending ranges with gaps between them.
    #[must_use]
    pub fn known(&self) -> Vec<Range<u32>> {
        let mut ranges: Vec<Range<u32>> = Vec::new();
        for (first, subtree) in &self.done {
            // The highest number of a slice is `u32::MAX - 1`.
            let end = u32::try_from(subtree.end(*first)).unwrap_or(u32::MAX);
            match ranges.last_mut() {
                Some(range) if range.end == *first => range.end = end,
                _ => ranges.push(*first..end),
            }
        }
        ranges
    }

    /// The digest of the file; `None` until every slice is known.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        if self.missing > 0 {
            return None;
        }
        // The remaining subtrees become smaller to the right; each is the left child of a parent of all that follow.
        let mut all = self.done.values().rev();
        let mut right = all.next()?.value;
        let Some(first) = self.done.values().next().filter(|_| self.done.len() > 1) else {
            return Some(Digest(right));
        };
        for left in all.take(self.done.len() - 2) {
            right = merge_subtrees_non_root(&left.value, &right, Mode::Hash);
        }
        Some(Digest(*merge_subtrees_root(&first.value, &right, Mode::Hash).as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::{MAX_FILE_LEN, SLICE_LEN};

    fn value(index: u32) -> ChainingValue {
        ChainingValue(*blake3::hash(&index.to_le_bytes()).as_bytes())
    }

    #[test]
    fn a_claimed_length_takes_no_memory() {
        for len in [1 << 50, MAX_FILE_LEN, u64::MAX] {
            let mut tree = FileTree::new(len);
            tree.set(7, value(7));
            tree.set(1_000_000, value(1));
            assert_eq!((tree.done.len(), tree.missing()), (2, slice_count(len) - 2));
        }
    }

    #[test]
    fn slices_in_order_take_a_few_values() {
        let count = 100_000;
        let mut tree = FileTree::new(u64::from(count) * SLICE_LEN);
        for index in 0..count {
            tree.set(index, value(index));
            assert!(tree.done.len() <= 17);
        }
        assert!(tree.missing() == 0 && tree.known().first() == Some(&(0..count)));
    }

    #[test]
    fn a_file_that_grew_has_the_tree_of_its_length() {
        for count in 2_u32..70 {
            let len = u64::from(count) * SLICE_LEN - 7;
            let (mut tree, mut grown) = (FileTree::new(len), FileTree::new(crate::entry::GROWING));
            for index in 0..count - 1 {
                tree.set(index, value(index));
                grown.set(index, value(index));
            }
            assert_eq!(grown.digest(), None);
            grown.end_at(len);
            assert_eq!((grown.missing(), grown.known()), (1, tree.known()));
            tree.set(count - 1, value(count - 1));
            grown.set(count - 1, value(count - 1));
            assert_eq!(grown.digest(), tree.digest(), "{count}");
        }
    }

    #[test]
    fn a_file_cannot_grow_beyond_its_end() {
        for count in [2_u32, 3, 4, 7, 8] {
            let mut tree = FileTree::new(crate::entry::GROWING);
            (0..9).for_each(|index| tree.set(index, value(index)));
            tree.end_at(u64::from(count) * SLICE_LEN);
            assert!(tree.missing() > 0 && tree.digest().is_none(), "{count}");
            assert!(tree.known().iter().all(|range| range.end <= count));
        }
    }

    #[test]
    fn any_order_gives_the_same_tree_and_the_known_slices() {
        for count in [1_u32, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 100] {
            let len = u64::from(count) * SLICE_LEN - 1;
            let mut digests = Vec::new();
            for step in [1, 7, 11, 97] {
                // Prime steps that do not divide the counts reach every slice.
                let order: Vec<u32> = (0..count).map(|at| at * step % count).collect();
                if count % step == 0 && step > 1 {
                    continue;
                }
                let mut tree = FileTree::new(len);
                for (at, index) in order.iter().enumerate() {
                    assert!(!tree.has(*index) && tree.digest().is_none());
                    tree.set(*index, value(*index));
                    tree.set(*index, value(*index));
                    assert!(tree.has(*index) && tree.missing() == count - at as u32 - 1);
                    let known: u32 = tree.known().iter().map(|range| range.end - range.start).sum();
                    assert_eq!(known, at as u32 + 1);
                }
                digests.push(tree.digest().unwrap());
            }
            assert!(digests.iter().all(|digest| *digest == digests[0]), "{count}");
        }
    }
}
