//! Lists that may be longer than memory: a few MiB in memory, the rest in unlinked temporary files.
//!
//! The file is compressed: successive paths share most of their bytes, and the uncompressed paths of a deep tree would
//! take more space than the tree itself.

mod sort;

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::FileExt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use sort::LEVEL;
pub use sort::{Sorted, Sorter};

/// Bytes in memory before they are written as one block.
const BLOCK: usize = 2 * 1024 * 1024;

/// A list that is written first, then read, forwards or backwards.
pub struct Spool<T> {
    tail: Vec<u8>,
    file: Option<File>,
    /// The blocks in the file.
    blocks: Vec<SpoolBlock>,
    len: u64,
    item: PhantomData<T>,
}

/// The position of a block in the file, and its uncompressed length.
struct SpoolBlock {
    offset: u64,
    packed: usize,
    len: usize,
}

impl<T> Default for Spool<T> {
    fn default() -> Self {
        Self { tail: Vec::new(), file: None, blocks: Vec::new(), len: 0, item: PhantomData }
    }
}

impl<T: Serialize + DeserializeOwned> Spool<T> {
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

    /// Appends an item.
    ///
    /// # Errors
    /// The error of creating or writing the temporary file.
    pub fn push(&mut self, item: &T) -> io::Result<()> {
        self.tail = postcard::to_extend(item, std::mem::take(&mut self.tail)).map_err(io::Error::other)?;
        self.len += 1;
        if self.tail.len() >= BLOCK {
            if self.file.is_none() {
                self.file = Some(tempfile::tempfile()?);
            }
            if let Some(file) = &self.file {
                let offset = self.blocks.last().map_or(0, |last| last.offset + last.packed as u64);
                let packed = zstd::bulk::compress(&self.tail, LEVEL)?;
                file.write_all_at(&packed, offset)?;
                self.blocks.push(SpoolBlock { offset, packed: packed.len(), len: self.tail.len() });
                self.tail.clear();
            }
        }
        Ok(())
    }

    /// Calls `visit` with the items of one block after the other, in order.
    ///
    /// # Errors
    /// The error of reading the temporary file, or that of `visit`.
    pub fn forwards<E: From<io::Error>>(
        &self,
        mut visit: impl FnMut(Vec<T>) -> Result<(), E>,
    ) -> Result<(), E> {
        for at in 0..=self.blocks.len() {
            visit(self.block(at)?)?;
        }
        Ok(())
    }

    /// Calls `visit` with the items of one block after the other, in reverse order.
    ///
    /// # Errors
    /// The error of reading the temporary file, or that of `visit`.
    pub fn backwards<E: From<io::Error>>(
        &self,
        mut visit: impl FnMut(Vec<T>) -> Result<(), E>,
    ) -> Result<(), E> {
        for at in (0..=self.blocks.len()).rev() {
            let mut items = self.block(at)?;
            items.reverse();
            visit(items)?;
        }
        Ok(())
    }

    /// The block at index `at`; behind the last one in the file comes the one in memory.
    fn block(&self, at: usize) -> io::Result<Vec<T>> {
        let read;
        let bytes = match (self.blocks.get(at), &self.file) {
            (Some(block), Some(file)) => {
                let mut packed = vec![0; block.packed];
                file.read_exact_at(&mut packed, block.offset)?;
                read = zstd::bulk::decompress(&packed, block.len)?;
                &read[..]
            }
            _ => &self.tail[..],
        };
        let mut items = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (item, after) = postcard::take_from_bytes(rest).map_err(io::Error::other)?;
            items.push(item);
            rest = after;
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_back_in_either_order() {
        let mut spool = Spool::default();
        let items: Vec<(u32, String)> = (0..50_000).map(|i| (i, format!("{i:0>100}"))).collect();
        for item in &items {
            spool.push(item).unwrap();
        }
        assert!(spool.blocks.len() > 1 && spool.len() == 50_000);
        let mut seen = Vec::new();
        let mut keep = |block: Vec<_>| -> io::Result<()> {
            seen.extend(block);
            Ok(())
        };
        spool.forwards(&mut keep).unwrap();
        assert_eq!(seen, items);
        seen.clear();
        let mut keep = |block: Vec<_>| -> io::Result<()> {
            seen.extend(block);
            Ok(())
        };
        spool.backwards(&mut keep).unwrap();
        assert!(seen.iter().eq(items.iter().rev()));
    }
}
