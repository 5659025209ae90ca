//! Checking the pages of database files that are read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use haul_core::{Error, Ops, RelPath, Result};
use haul_pages::{PageCheck, ReadHead};

use super::file::open;
use super::page_cache::CachedFile;
use crate::path::root::Root;

/// A file that was written this long ago is not being written now. A write sets the time when it begins.
const QUIET: Duration = Duration::from_secs(60);

/// Reads beginnings of files below a root.
struct FileHeads<'a> {
    root: &'a Root,
    path: &'a RelPath,
    file: &'a File,
}

impl FileHeads<'_> {
    fn read(&self, file: &File, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let mut used = 0;
        loop {
            self.root.ops.one();
            match file.read_at(&mut bytes[used..], used as u64) {
                Ok(0) => break,
                Ok(read) => used += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(used);
        Ok(bytes)
    }
}

impl ReadHead for FileHeads<'_> {
    fn head(&self, len: usize) -> Result<Vec<u8>> {
        let failed = |e| Error::io(self.root.side(), "read", &e).on(self.root.shown(self.path));
        self.read(self.file, len).map_err(failed)
    }

    fn other(&self, path: &RelPath, len: usize) -> Option<Vec<u8>> {
        self.read(&open(self.root, path).ok()?, len).ok()
    }
}

impl CachedFile {
    /// The same, with the pages that `check` finds in it.
    ///
    /// # Errors
    /// If it must have pages and has none, or cannot be read.
    pub(crate) fn checked(
        mut self,
        root: &Root,
        path: &RelPath,
        len: u64,
        check: Option<&Arc<PageCheck>>,
    ) -> Result<Self> {
        if let Some(check) = check {
            let heads = FileHeads { root, path, file: &self.file };
            self.pages = check.file(path, root.name(), len, &heads)?;
        }
        Ok(self)
    }

    /// Fills `bytes` from `offset`, and checks the pages in them.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) fn read(&self, ops: &Ops, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        ops.one();
        self.file.read_exact_at(bytes, offset)?;
        self.check_pages(ops, bytes, offset).map(|_| ())
    }

    /// Checks the pages in `bytes`, which were read from `offset`. Bad ones are read again. Returns whether all are good,
    /// or need not be.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) fn check_pages(&self, ops: &Ops, bytes: &mut [u8], offset: u64) -> io::Result<bool> {
        let Some(pages) = &self.pages else { return Ok(true) };
        let mut read = |page: &mut [u8], at| {
            ops.one();
            self.file.read_exact_at(page, at)
        };
        let is_live = || {
            ops.one();
            let age = self.file.metadata().and_then(|found| found.modified());
            // A time that is in the future, or unknown, tells nothing.
            age.map_or(true, |time| SystemTime::now().duration_since(time).map_or(true, |age| age < QUIET))
        };
        pages.check(bytes, offset, &mut read, &is_live)
    }

    /// Fails if pages were bad.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::BadPages`].
    pub(crate) fn settle_pages(&self, are_good: bool) -> Result<()> {
        match &self.pages {
            Some(pages) if !are_good => Err(pages.failure()),
            _ => Ok(()),
        }
    }
}
