//! The page cache is left to the other programs of the machine: content that is read or written once is dropped from
//! it.
//!
//! Small files are left to the kernel, which evicts pages that were used once first. To drop pages that were used a
//! moment ago, the kernel must flush the page lists of every CPU, which takes longer than to copy a small file.

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::fs::File;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;

use haul_core::digest::slice_len;
use haul_core::{Ops, SLICE_LEN};
use haul_pages::FilePages;
use rustix::fs::Advice;

/// Shorter ranges are not dropped: each call took 150 µs, measured on two busy cores.
const LEAST: u64 = 1024 * 1024;

/// An open file, and whether its content was in the page cache before haul read it.
pub(crate) struct CachedFile {
    pub(crate) file: File,
    len: u64,
    /// No page of the file was cached when it was opened.
    cold: bool,
    /// For slices that are read in parts: whether no page was cached before the first part was read.
    uncached: Mutex<HashMap<u32, bool>>,
    /// Its pages, if it is a database file that is checked.
    pub(crate) pages: Option<FilePages>,
}

impl CachedFile {
    /// Examines the page cache before any of the file is read.
    pub(crate) fn new(file: File, len: u64) -> Self {
        let cold = len >= LEAST && is_cold(&file, 0, len);
        Self { file, len, cold, uncached: Mutex::default(), pages: None }
    }

    /// Whether a range of the file is not cached, so that its pages may be dropped after reading. Asked before reading.
    pub(crate) fn is_uncached(&self, start: u64, len: u64) -> bool {
        // Read-ahead from the slice before reaches into this one, but seldom into its second half.
        self.cold || len == SLICE_LEN && is_cold(&self.file, start + len / 2, len / 2)
    }

    /// The same for a slice, of a file of `file_len` bytes, that is read in parts: found out before the first part.
    pub(crate) fn is_uncached_in_parts(&self, file_len: u64, index: u32) -> bool {
        let look = || self.is_uncached(u64::from(index) * SLICE_LEN, slice_len(file_len, index));
        self.cold || *self.uncached.lock().entry(index).or_insert_with(look)
    }
}

impl Drop for CachedFile {
    /// On a busy machine, read-ahead brings back whole slices that were dropped before.
    fn drop(&mut self) {
        if self.cold && !is_cold(&self.file, 0, self.len) {
            release(&self.file, 0, self.len);
        }
    }
}

/// Drops pages that were read, or written and synced, from the page cache.
pub(crate) fn release(file: &File, start: u64, len: u64) {
    if let Some(len) = NonZeroU64::new(len).filter(|len| len.get() >= LEAST) {
        // Advice: nothing depends on the result.
        let _ = rustix::fs::fadvise(file, start, Some(len), Advice::DontNeed);
    }
}

/// Syncs a file that was written before and drops its pages, so that it is read from the disk.
///
/// # Errors
/// A write-back error that was not reported yet.
pub(crate) fn sync_and_drop(ops: &Ops, file: &File) -> std::io::Result<()> {
    ops.one();
    let synced = file.sync_data();
    // Advice; pages that stay cached were synced.
    let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
    synced
}

/// Prepares a file that is updated in place for a comparison with its content on the disk. The cached pages equal that
/// content, unless some could not be written.
pub(crate) fn sync_in_place(ops: &Ops, file: &File) {
    ops.one();
    if file.sync_data().is_err() {
        // Pages that differ are written and synced again.
        let _ = sync_and_drop(ops, file);
    }
}

/// `struct cachestat_range` and `struct cachestat` of linux/mman.h.
#[repr(C)]
struct Range {
    off: u64,
    len: u64,
}

#[repr(C)]
#[derive(Default)]
struct CacheStat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// The number of cachestat(2) on every architecture; since Linux 6.5.
const CACHESTAT: libc::c_long = 451;

/// Whether no page of the range is cached. `false` if the kernel cannot tell: then nothing is dropped.
#[allow(unsafe_code)]
fn is_cold(file: &File, off: u64, len: u64) -> bool {
    // A length of 0 would mean all of the file.
    let range = Range { off, len: len.max(1) };
    let mut stat = CacheStat::default();
    // SAFETY: the kernel reads a range and writes figures of the layouts that it declares, during the call alone.
    let done = unsafe {
        libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut stat, 0 as libc::c_uint)
    };
    done == 0 && stat.cached == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn pages_that_were_not_cached_before_are_dropped() {
        let mut file = tempfile::tempfile_in(".").unwrap();
        std::io::Write::write_all(&mut file, &vec![7; 1 << 20]).unwrap();
        file.sync_data().unwrap();
        let len = 1 << 20;
        assert!(!CachedFile::new(file.try_clone().unwrap(), len).is_uncached(0, len), "it was just written");
        release(&file, 0, len);
        if !is_cold(&file, 0, len) {
            // The kernel cannot tell, or the file system is in memory.
            return;
        }
        let opened = CachedFile::new(file, len);
        assert!(opened.is_uncached(0, len));
        opened.file.read_exact_at(&mut [0; 4096], 0).unwrap();
        assert!(!is_cold(&opened.file, 0, len) && opened.is_uncached(0, len));
        release(&opened.file, 0, len);
        assert!(is_cold(&opened.file, 0, len));
    }
}
