//! Reads an index file.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use haul_core::{Entry, RelPath};

use crate::format::{Footer, IndexRecord, IndexedDirectory, MAGIC, MAX_BLOCK, TRAILER};

/// Why a file is not used.
#[derive(Debug)]
pub(crate) enum IndexRefusal {
    /// There is none.
    Missing,
    /// For this reason.
    Because(String),
}

impl From<io::Error> for IndexRefusal {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::NotFound { Self::Missing } else { Self::Because(error.to_string()) }
    }
}

/// An open, verified index.
pub(crate) struct StoredIndex {
    file: File,
    pub(crate) footer: Footer,
}

/// A directory in the index.
pub(crate) struct IndexedDir {
    pub(crate) directory: IndexedDirectory,
    /// Directories before it.
    pub(crate) number: u64,
    /// The position of its entries.
    at: Position,
}

#[derive(Clone, Copy)]
struct Position {
    block: usize,
    offset: usize,
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the index is damaged")
}

impl StoredIndex {
    /// Opens the index of `source` and verifies all of it.
    pub(crate) fn open(path: &Path, source: &[u8]) -> Result<Self, IndexRefusal> {
        let bad = || IndexRefusal::Because("it is damaged, or no index".to_owned());
        // Opening a pipe would block.
        if !path.metadata()?.is_file() {
            return Err(bad());
        }
        let mut file = File::open(path)?;
        let len = file.metadata()?.len();
        let least = MAGIC.len() as u64 + TRAILER;
        let mut magic = [0; MAGIC.len()];
        if len < least {
            return Err(bad());
        }
        file.read_exact(&mut magic)?;
        if magic != *MAGIC {
            let ours = magic[..7] == MAGIC[..7];
            return Err(if ours {
                IndexRefusal::Because("another version of haul wrote it".to_owned())
            } else {
                bad()
            });
        }
        file.seek(SeekFrom::Start(0))?;
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader((&file).take(len - 32))?;
        let mut hash = [0; 32];
        file.read_exact_at(&mut hash, len - 32)?;
        if hasher.finalize() != hash {
            return Err(bad());
        }
        let footer = Self::footer(&file, len)?.ok_or_else(bad)?;
        if *footer.source != *source {
            let other = haul_core::path::printable(&footer.source);
            return Err(IndexRefusal::Because(format!("it is of another source, {other}")));
        }
        Ok(Self { file, footer })
    }

    /// The footer, if it is consistent.
    fn footer(file: &File, len: u64) -> io::Result<Option<Footer>> {
        let mut footer_len = [0; 8];
        file.read_exact_at(&mut footer_len, len - TRAILER)?;
        let footer_len = u64::from_le_bytes(footer_len);
        let Some(end) = (len - TRAILER).checked_sub(footer_len).filter(|end| *end >= MAGIC.len() as u64)
        else {
            return Ok(None);
        };
        // No longer than the file.
        let mut bytes = vec![0; usize::try_from(footer_len).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut bytes, end)?;
        let Ok(footer) = postcard::from_bytes::<Footer>(&bytes) else { return Ok(None) };
        let mut at = MAGIC.len() as u64;
        let mut directories = 0;
        for block in &footer.blocks {
            let sound =
                block.offset == at && block.len as usize <= MAX_BLOCK && block.directories >= directories;
            if !sound {
                return Ok(None);
            }
            at += u64::from(block.len);
            directories = block.directories;
        }
        let keys = footer.blocks.windows(2).all(|pair| pair[0].key() < pair[1].key());
        // Each directory takes some bytes, which bounds their number.
        let sound = at == end && keys && directories <= footer.directories && footer.directories <= len;
        Ok(sound.then_some(footer))
    }

    fn block(&self, number: usize) -> io::Result<Vec<u8>> {
        let Some(block) = self.footer.blocks.get(number) else { return Ok(Vec::new()) };
        let mut bytes = vec![0; block.len as usize];
        self.file.read_exact_at(&mut bytes, block.offset)?;
        Ok(bytes)
    }

    /// The block that contains this key, if it exists.
    fn block_of(&self, directory: &RelPath, name: Option<&[u8]>) -> Option<usize> {
        self.footer.blocks.partition_point(|block| block.key() <= (directory, name)).checked_sub(1)
    }

    /// Looks up the directory at `path`.
    pub(crate) fn directory(&self, path: &RelPath) -> io::Result<Option<IndexedDir>> {
        let Some(block) = self.block_of(path, None) else { return Ok(None) };
        let mut number = self.footer.blocks[block].directories;
        let mut records =
            IndexRecords { stored: self, bytes: self.block(block)?, at: Position { block, offset: 0 } };
        while records.at.block == block
            && let Some(record) = records.next()
        {
            if let IndexRecord::IndexedDirectory(found, directory) = record? {
                if found == *path {
                    return Ok(Some(IndexedDir { directory, number, at: records.at }));
                }
                number += 1;
            }
        }
        Ok(None)
    }

    /// The entries of a directory.
    pub(crate) fn entries(&self, path: &RelPath, found: &IndexedDir) -> io::Result<Entries<'_>> {
        let records = IndexRecords { stored: self, bytes: self.block(found.at.block)?, at: found.at };
        Ok(Entries { records, directory: path.clone() })
    }

    /// All records from the beginning.
    pub(crate) fn records(&self) -> io::Result<IndexRecords<'_>> {
        Ok(IndexRecords { stored: self, bytes: self.block(0)?, at: Position { block: 0, offset: 0 } })
    }

    /// Which of these names are in the directory. Adjacent names share a lookup.
    pub(crate) fn names(&self, directory: &RelPath, names: &[&[u8]]) -> io::Result<Vec<bool>> {
        let mut known: Option<(usize, HashSet<Vec<u8>>)> = None;
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_unstable_by_key(|at| names[*at]);
        let mut there = vec![false; names.len()];
        for at in order {
            let Some(block) = self.block_of(directory, Some(names[at])) else { continue };
            if known.as_ref().is_none_or(|(read, _)| *read != block) {
                known = Some((block, self.names_in(block, directory)?));
            }
            there[at] = known.as_ref().is_some_and(|(_, found)| found.contains(names[at]));
        }
        Ok(there)
    }

    /// The names of the directory in one block.
    fn names_in(&self, block: usize, directory: &RelPath) -> io::Result<HashSet<Vec<u8>>> {
        let mut names = HashSet::new();
        let mut within = self.footer.blocks[block].directory == *directory;
        let mut records =
            IndexRecords { stored: self, bytes: self.block(block)?, at: Position { block, offset: 0 } };
        while records.at.block == block
            && let Some(record) = records.next()
        {
            match record? {
                IndexRecord::IndexedDirectory(found, _) => within = found == *directory,
                IndexRecord::Seen(seen) if within => {
                    names.insert(seen.name.into_vec());
                }
                IndexRecord::Seen(_) => {}
            }
        }
        Ok(names)
    }
}

/// Records in sequence.
pub(crate) struct IndexRecords<'a> {
    stored: &'a StoredIndex,
    bytes: Vec<u8>,
    /// The position of the next record: in the next block, if this one is exhausted.
    at: Position,
}

impl Iterator for IndexRecords<'_> {
    type Item = io::Result<IndexRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at.offset..).unwrap_or_default();
        if rest.is_empty() {
            return None;
        }
        let Ok((record, after)) = postcard::take_from_bytes(rest) else {
            self.bytes.clear();
            return Some(Err(damaged()));
        };
        self.at.offset = self.bytes.len() - after.len();
        if after.is_empty() {
            self.at = Position { block: self.at.block + 1, offset: 0 };
            match self.stored.block(self.at.block) {
                Ok(bytes) => self.bytes = bytes,
                Err(error) => {
                    self.bytes.clear();
                    return Some(Err(error));
                }
            }
        }
        Some(Ok(record))
    }
}

/// The entries of one directory.
pub(crate) struct Entries<'a> {
    records: IndexRecords<'a>,
    directory: RelPath,
}

impl Iterator for Entries<'_> {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.records.next()? {
            Err(error) => Some(Err(error)),
            Ok(IndexRecord::IndexedDirectory(..)) => None,
            Ok(IndexRecord::Seen(seen)) => Some(seen.entry(&self.directory).ok_or_else(damaged)),
        }
    }
}
