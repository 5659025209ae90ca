//! Writes an index file to a temporary name, in order, and renames it into place.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use haul_core::RelPath;
use serde_bytes::ByteBuf;
use tempfile::NamedTempFile;

use crate::format::{BLOCK, Footer, IndexBlock, IndexRecord, IndexedDirectory, MAGIC, SeenEntry};

/// A file that is being written; removed if it is dropped before its end.
pub(crate) struct Writer {
    out: BufWriter<NamedTempFile>,
    hasher: blake3::Hasher,
    offset: u64,
    block: Vec<u8>,
    /// The first key of the block, and the directories before it.
    begin: Option<(RelPath, Option<ByteBuf>, u64)>,
    directory: RelPath,
    footer: Footer,
}

impl Writer {
    /// Begins a file in `dir`.
    pub(crate) fn new(dir: &Path, source: &[u8], dev: u64) -> io::Result<Self> {
        let file = tempfile::Builder::new().prefix(".haul-index-").tempfile_in(dir)?;
        let footer = Footer { source: ByteBuf::from(source), dev, directories: 0, blocks: Vec::new() };
        let mut writer = Self {
            out: BufWriter::with_capacity(256 * 1024, file),
            hasher: blake3::Hasher::new(),
            offset: 0,
            block: Vec::with_capacity(BLOCK + 1024),
            begin: None,
            directory: RelPath::root(),
            footer,
        };
        writer.write(MAGIC)?;
        Ok(writer)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.offset += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Adds a directory; paths must ascend.
    pub(crate) fn directory(&mut self, path: RelPath, directory: IndexedDirectory) -> io::Result<()> {
        self.directory = path.clone();
        self.record(None, &IndexRecord::IndexedDirectory(path, directory))?;
        self.footer.directories += 1;
        Ok(())
    }

    /// Adds an entry of the last directory; names must ascend.
    pub(crate) fn seen(&mut self, seen: SeenEntry) -> io::Result<()> {
        let name = self.begin.is_none().then(|| seen.name.clone());
        self.record(name, &IndexRecord::Seen(seen))
    }

    fn record(&mut self, name: Option<ByteBuf>, record: &IndexRecord) -> io::Result<()> {
        if self.begin.is_none() {
            self.begin = Some((self.directory.clone(), name, self.footer.directories));
        }
        self.block =
            postcard::to_extend(record, std::mem::take(&mut self.block)).map_err(io::Error::other)?;
        if self.block.len() >= BLOCK { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> io::Result<()> {
        let Some((directory, name, directories)) = self.begin.take() else { return Ok(()) };
        let len = u32::try_from(self.block.len()).map_err(io::Error::other)?;
        self.footer.blocks.push(IndexBlock { offset: self.offset, len, directory, name, directories });
        let mut block = std::mem::take(&mut self.block);
        self.write(&block)?;
        block.clear();
        self.block = block;
        Ok(())
    }

    /// Ends the file and renames it to `path`.
    pub(crate) fn finish(mut self, path: &Path) -> io::Result<()> {
        self.end_block()?;
        let footer = postcard::to_stdvec(&self.footer).map_err(io::Error::other)?;
        self.write(&footer)?;
        self.write(&(footer.len() as u64).to_le_bytes())?;
        self.out.write_all(self.hasher.finalize().as_bytes())?;
        let file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        // The rename must survive a crash.
        path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
    }
}
