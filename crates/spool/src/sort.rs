//! Sorts lists that may be longer than memory: sorted runs in unlinked temporary files, merged as they are read.
//!
//! A merge holds one block and one item of each run, and an item can be a path of half a megabyte. So no merge has more
//! than [`FAN`] runs: as many runs of one level become one run of the next level.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use zstd::bulk::Compressor;

/// Bytes of items that are sorted in memory before they are written as one run.
const RUN: usize = 8 * 1024 * 1024;
/// Bytes of items in one compressed block of a run.
const BLOCK: usize = 256 * 1024;
/// The compression level: the lowest that finds matches half a megabyte back, as far as the longest path.
pub(crate) const LEVEL: i32 = 1;
/// The most runs of one merge.
const FAN: usize = 32;

/// A list that is sorted when it is complete.
pub struct Sorter<T> {
    items: Vec<T>,
    /// Approximate memory of the items.
    bytes: usize,
    /// Holds one serialized item to measure its size.
    scale: Vec<u8>,
    /// The runs of each level. A run of level n+1 was merged from [`FAN`] runs of level n.
    levels: Vec<Vec<SortedRun>>,
    len: u64,
}

impl<T> Default for Sorter<T> {
    fn default() -> Self {
        Self { items: Vec::new(), bytes: 0, scale: Vec::new(), levels: Vec::new(), len: 0 }
    }
}

impl<T: Ord + Serialize + DeserializeOwned> Sorter<T> {
    /// Number of items.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an item.
    ///
    /// # Errors
    /// The error of creating, writing or reading a temporary file.
    pub fn push(&mut self, item: T) -> io::Result<()> {
        let mut scale = std::mem::take(&mut self.scale);
        scale.clear();
        self.scale = postcard::to_extend(&item, scale).map_err(io::Error::other)?;
        self.bytes += self.scale.len() + size_of::<T>();
        self.items.push(item);
        self.len += 1;
        if self.bytes >= RUN { self.spill() } else { Ok(()) }
    }

    /// Writes the items in memory as one sorted run.
    fn spill(&mut self) -> io::Result<()> {
        let mut items = std::mem::take(&mut self.items);
        self.bytes = 0;
        items.sort_unstable();
        let mut run =
            SortedRun::write(self.levels.first().and_then(|runs| runs.last()), items.into_iter().map(Ok))?;
        for level in 0.. {
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            self.levels[level].push(run);
            if self.levels[level].len() < FAN {
                break;
            }
            let full = std::mem::take(&mut self.levels[level]);
            let next = self.levels.get(level + 1).and_then(|runs| runs.last());
            run = SortedRun::write(next, MergedRuns::<T>::new(full)?)?;
        }
        Ok(())
    }

    /// All items in ascending order.
    ///
    /// # Errors
    /// The error of writing or reading a temporary file.
    pub fn sorted(mut self) -> io::Result<Sorted<T>> {
        if self.levels.is_empty() {
            self.items.sort_unstable();
            return Ok(Sorted(SortedKind::Memory(self.items.into_iter())));
        }
        if !self.items.is_empty() {
            self.spill()?;
        }
        // The shortest runs are last.
        let mut runs: Vec<SortedRun> = self.levels.into_iter().rev().flatten().collect();
        while runs.len() > FAN {
            let shortest = runs.split_off(runs.len() - FAN.min(runs.len() - FAN + 1));
            runs.push(SortedRun::write(None, MergedRuns::<T>::new(shortest)?)?);
        }
        Ok(Sorted(SortedKind::Merge(MergedRuns::new(runs)?)))
    }
}

/// The items of a [`Sorter`] in ascending order. Reading them from a temporary file may fail.
pub struct Sorted<T>(SortedKind<T>);

enum SortedKind<T> {
    Memory(std::vec::IntoIter<T>),
    Merge(MergedRuns<T>),
}

impl<T: Ord + DeserializeOwned> Iterator for Sorted<T> {
    type Item = io::Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            SortedKind::Memory(items) => items.next().map(Ok),
            SortedKind::Merge(merge) => merge.next(),
        }
    }
}

/// The items of several runs in ascending order.
struct MergedRuns<T> {
    runs: Vec<RunReader<T>>,
    /// The next item of each run, and the position of the run.
    heads: BinaryHeap<Reverse<(T, usize)>>,
}

impl<T: Ord + DeserializeOwned> MergedRuns<T> {
    fn new(runs: Vec<SortedRun>) -> io::Result<Self> {
        let mut runs: Vec<RunReader<T>> = runs.into_iter().map(RunReader::new).collect();
        let mut heads = BinaryHeap::with_capacity(runs.len());
        for (at, run) in runs.iter_mut().enumerate() {
            heads.extend(run.next()?.map(|item| Reverse((item, at))));
        }
        Ok(Self { runs, heads })
    }
}

impl<T: Ord + DeserializeOwned> Iterator for MergedRuns<T> {
    type Item = io::Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse((item, at)) = self.heads.pop()?;
        match self.runs[at].next() {
            Ok(next) => self.heads.extend(next.map(|item| Reverse((item, at)))),
            Err(error) => return Some(Err(error)),
        }
        Some(Ok(item))
    }
}

/// One sorted run: compressed blocks, each after the lengths of its compressed and of its uncompressed bytes.
struct SortedRun {
    /// Shared by the runs of one level, so that the space is free once they are merged.
    file: Arc<File>,
    range: Range<u64>,
}

impl SortedRun {
    /// Writes a run behind `before`, or into a new file.
    fn write<T: Serialize>(
        before: Option<&Self>,
        items: impl Iterator<Item = io::Result<T>>,
    ) -> io::Result<Self> {
        let (file, start) = match before {
            Some(run) => (Arc::clone(&run.file), run.range.end),
            None => (Arc::new(tempfile::tempfile()?), 0),
        };
        let mut run = Self { file, range: start..start };
        let mut compressor = Compressor::new(LEVEL)?;
        let mut block = Vec::with_capacity(BLOCK + 4096);
        for item in items {
            block = postcard::to_extend(&item?, block).map_err(io::Error::other)?;
            if block.len() >= BLOCK {
                run.append(&mut compressor, &block)?;
                block.clear();
            }
        }
        if !block.is_empty() {
            run.append(&mut compressor, &block)?;
        }
        Ok(run)
    }

    fn append(&mut self, compressor: &mut Compressor<'_>, block: &[u8]) -> io::Result<()> {
        let packed = compressor.compress(block)?;
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).map(u32::to_le_bytes).map_err(io::Error::other);
        let header = [len(&packed)?, len(block)?].concat();
        self.file.write_all_at(&header, self.range.end)?;
        self.file.write_all_at(&packed, self.range.end + header.len() as u64)?;
        self.range.end += (header.len() + packed.len()) as u64;
        Ok(())
    }
}

/// Reads a run from its begin to its end.
struct RunReader<T> {
    rest: SortedRun,
    block: Vec<u8>,
    at: usize,
    item: PhantomData<T>,
}

impl<T: DeserializeOwned> RunReader<T> {
    fn new(run: SortedRun) -> Self {
        Self { rest: run, block: Vec::new(), at: 0, item: PhantomData }
    }

    fn next(&mut self) -> io::Result<Option<T>> {
        if self.at == self.block.len() {
            if self.rest.range.is_empty() {
                return Ok(None);
            }
            self.read_block()?;
        }
        let (item, after) = postcard::take_from_bytes(&self.block[self.at..]).map_err(io::Error::other)?;
        self.at = self.block.len() - after.len();
        Ok(Some(item))
    }

    fn read_block(&mut self) -> io::Result<()> {
        let SortedRun { file, range } = &mut self.rest;
        let (mut packed_len, mut len) = ([0; 4], [0; 4]);
        file.read_exact_at(&mut packed_len, range.start)?;
        file.read_exact_at(&mut len, range.start + 4)?;
        let mut packed = vec![0; u32::from_le_bytes(packed_len) as usize];
        file.read_exact_at(&mut packed, range.start + 8)?;
        range.start += 8 + packed.len() as u64;
        self.block = Vec::new();
        self.block = zstd::bulk::decompress(&packed, u32::from_le_bytes(len) as usize)?;
        self.at = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(items: impl Iterator<Item = (String, u32)>) -> (Vec<usize>, Vec<(String, u32)>) {
        let mut sorter = Sorter::default();
        for item in items {
            sorter.push(item).unwrap();
        }
        let runs = sorter.levels.iter().map(Vec::len).collect();
        (runs, sorter.sorted().unwrap().map(|item| item.unwrap()).collect())
    }

    #[test]
    fn sorts_in_memory_and_beyond_it() {
        for (count, runs) in [(0, vec![]), (1000, vec![]), (300_000, vec![2])] {
            let mixed = |n: u32| n.wrapping_mul(2_654_435_761) % 1_000_003;
            let items = || (0..count).map(|n| (format!("{:0>40}", mixed(n)), n));
            let (written, found) = sorted(items());
            let mut expected: Vec<_> = items().collect();
            expected.sort_unstable();
            assert!(written == runs && found == expected, "{count}: {written:?} runs");
        }
    }

    #[test]
    fn an_item_may_be_longer_than_a_block() {
        let items = (0..200).rev().map(|n| ("x".repeat(BLOCK * 3 + n as usize), n));
        let (runs, found) = sorted(items);
        assert!(!runs.is_empty() && found.iter().map(|(_, n)| *n).eq(0..200));
    }

    #[test]
    fn a_merge_has_a_bounded_number_of_runs() {
        // Two items fill a run; 32 runs become one of the next level, and 32 + 31 runs are too many for one merge.
        let text = "y".repeat(RUN / 2);
        let count = 2 * (FAN * 3 + FAN - 1) as u32;
        let (runs, found) = sorted((0..count).rev().map(|n| (text.clone(), n)));
        assert_eq!(runs, [FAN - 1, 3]);
        assert!(found.iter().map(|(_, n)| *n).eq(0..count) && found.iter().all(|(item, _)| *item == text));
    }
}
