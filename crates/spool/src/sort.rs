//! Sorts lists that may be longer than memory: sorted runs in one unlinked temporary file, merged as they are read.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of items that are sorted in memory before they are written as one run.
const RUN: usize = 8 * 1024 * 1024;
/// Bytes read of a run at a time, so that a merge holds 1/256 of the list.
const READ: usize = 32 * 1024;
/// Bytes written at a time.
const WRITE: usize = 256 * 1024;

/// A list that is sorted when it is complete.
pub struct Sorter<T> {
    items: Vec<T>,
    /// Approximate memory of the items.
    bytes: usize,
    /// Holds one serialized item to measure its size.
    scale: Vec<u8>,
    file: Option<File>,
    runs: Vec<Range<u64>>,
    len: u64,
}

impl<T> Default for Sorter<T> {
    fn default() -> Self {
        Self { items: Vec::new(), bytes: 0, scale: Vec::new(), file: None, runs: Vec::new(), len: 0 }
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
    /// The error of creating or writing the temporary file.
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
        self.items.sort_unstable();
        if self.file.is_none() {
            self.file = Some(tempfile::tempfile()?);
        }
        let Some(file) = &self.file else { return Ok(()) };
        let start = self.runs.last().map_or(0, |run| run.end);
        let mut end = start;
        let mut out = Vec::with_capacity(WRITE + 4096);
        for item in &self.items {
            let at = out.len();
            out.extend([0; 4]);
            out = postcard::to_extend(item, out).map_err(io::Error::other)?;
            let len = u32::try_from(out.len() - at - 4).map_err(io::Error::other)?;
            out[at..at + 4].copy_from_slice(&len.to_le_bytes());
            if out.len() >= WRITE {
                file.write_all_at(&out, end)?;
                end += out.len() as u64;
                out.clear();
            }
        }
        file.write_all_at(&out, end)?;
        end += out.len() as u64;
        self.runs.push(start..end);
        self.items.clear();
        self.bytes = 0;
        Ok(())
    }

    /// All items in ascending order.
    ///
    /// # Errors
    /// The error of writing or reading the temporary file.
    pub fn sorted(mut self) -> io::Result<Sorted<T>> {
        if self.runs.is_empty() {
            self.items.sort_unstable();
            return Ok(Sorted(Kind::Memory(self.items.into_iter())));
        }
        self.spill()?;
        self.items = Vec::new();
        let file = Rc::new(self.file.ok_or_else(|| io::Error::other("the temporary file is missing"))?);
        let mut runs: Vec<Run<T>> =
            self.runs.into_iter().map(|range| Run::new(file.clone(), range)).collect();
        let mut heads = BinaryHeap::with_capacity(runs.len());
        for (at, run) in runs.iter_mut().enumerate() {
            heads.extend(run.next()?.map(|item| Reverse((item, at))));
        }
        Ok(Sorted(Kind::Merge { runs, heads }))
    }
}

/// The items of a [`Sorter`] in ascending order. Reading them from the temporary file may fail.
pub struct Sorted<T>(Kind<T>);

enum Kind<T> {
    Memory(std::vec::IntoIter<T>),
    Merge { runs: Vec<Run<T>>, heads: BinaryHeap<Reverse<(T, usize)>> },
}

impl<T: Ord + DeserializeOwned> Iterator for Sorted<T> {
    type Item = io::Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Kind::Memory(items) => items.next().map(Ok),
            Kind::Merge { runs, heads } => {
                let Reverse((item, at)) = heads.pop()?;
                match runs[at].next() {
                    Ok(next) => heads.extend(next.map(|item| Reverse((item, at)))),
                    Err(error) => return Some(Err(error)),
                }
                Some(Ok(item))
            }
        }
    }
}

/// One sorted run in the file.
struct Run<T> {
    file: Rc<File>,
    rest: Range<u64>,
    buffer: Vec<u8>,
    at: usize,
    item: PhantomData<T>,
}

impl<T: DeserializeOwned> Run<T> {
    fn new(file: Rc<File>, rest: Range<u64>) -> Self {
        Self { file, rest, buffer: Vec::new(), at: 0, item: PhantomData }
    }

    fn next(&mut self) -> io::Result<Option<T>> {
        if self.at == self.buffer.len() && self.rest.is_empty() {
            return Ok(None);
        }
        let mut len = [0; 4];
        len.copy_from_slice(self.bytes(4)?);
        let item = self.bytes(u32::from_le_bytes(len) as usize)?;
        postcard::from_bytes(item).map(Some).map_err(io::Error::other)
    }

    /// The next `len` bytes.
    fn bytes(&mut self, len: usize) -> io::Result<&[u8]> {
        let have = self.buffer.len() - self.at;
        if have < len {
            self.buffer.drain(..self.at);
            self.at = 0;
            let left = usize::try_from(self.rest.end - self.rest.start).unwrap_or(usize::MAX);
            let more = READ.max(len - have).min(left);
            self.buffer.resize(have + more, 0);
            self.file.read_exact_at(&mut self.buffer[have..], self.rest.start)?;
            self.rest.start += more as u64;
        }
        let bytes = self.buffer.get(self.at..self.at + len).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.at += len;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(items: impl Iterator<Item = (String, u32)>) -> (usize, Vec<(String, u32)>) {
        let mut sorter = Sorter::default();
        for item in items {
            sorter.push(item).unwrap();
        }
        let runs = sorter.runs.len();
        (runs, sorter.sorted().unwrap().map(|item| item.unwrap()).collect())
    }

    #[test]
    fn sorts_in_memory_and_beyond_it() {
        for (count, runs) in [(0, 0), (1000, 0), (300_000, 2)] {
            let mixed = |n: u32| n.wrapping_mul(2_654_435_761) % 1_000_003;
            let items = || (0..count).map(|n| (format!("{:0>40}", mixed(n)), n));
            let (written, found) = sorted(items());
            let mut expected: Vec<_> = items().collect();
            expected.sort_unstable();
            assert!(written >= runs && found == expected, "{count}: {written} runs");
        }
    }

    #[test]
    fn an_item_may_be_longer_than_one_read() {
        let items = (0..200).rev().map(|n| ("x".repeat(READ * 3 + n as usize), n));
        let (runs, found) = sorted(items);
        assert!(runs > 0 && found.iter().map(|(_, n)| *n).eq(0..200));
    }
}
