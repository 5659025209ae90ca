//! What is read or written once is not kept in memory: the page cache belongs to what runs here.
//!
//! Small files are left to the kernel, which gives up first what was used once. To drop pages that were read or written
//! a moment ago it asks every processor for the lists that it still has them on, and that takes longer than the file.

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::fs::File;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;

use haul_core::SLICE_LEN;
use haul_core::digest::slice_len;
use rustix::fs::Advice;

/// Shorter ranges are not dropped: it took 150 µs for each, measured on two busy cores.
const LEAST: u64 = 1024 * 1024;

/// A file that is read.
pub(super) struct Opened {
    pub(super) file: File,
    len: u64,
    /// Nothing of it was in memory when it was opened.
    cold: bool,
    /// Of slices that are read in parts: whether they are in memory only because of that.
    ours: Mutex<HashMap<u32, bool>>,
}

impl Opened {
    /// Looks at the pages of a file before any of it is read.
    pub(super) fn new(file: File, len: u64) -> Self {
        let cold = len >= LEAST && is_cold(&file, 0, len);
        Self { file, len, cold, ours: Mutex::default() }
    }

    /// Whether a part of the file is in memory only because it is about to be read here. Asked before it is.
    pub(super) fn is_ours(&self, start: u64, len: u64) -> bool {
        // What is read ahead of the slice before reaches into this one; it seldom reaches into its second half.
        self.cold || len == SLICE_LEN && is_cold(&self.file, start + len / 2, len / 2)
    }

    /// The same of a slice of a file of `file_len` bytes that is read in parts: found out before the first of them is.
    pub(super) fn is_ours_in_parts(&self, file_len: u64, index: u32) -> bool {
        let look = || self.is_ours(u64::from(index) * SLICE_LEN, slice_len(file_len, index));
        self.cold || *self.ours.lock().entry(index).or_insert_with(look)
    }
}

impl Drop for Opened {
    /// What was read ahead of a slow reader into slices that others were done with: whole slices, on a busy machine.
    fn drop(&mut self) {
        if self.cold && !is_cold(&self.file, 0, self.len) {
            release(&self.file, 0, self.len);
        }
    }
}

/// Takes what was read, or written and synced, out of memory.
pub(super) fn release(file: &File, start: u64, len: u64) {
    if let Some(len) = NonZeroU64::new(len).filter(|len| len.get() >= LEAST) {
        // Advice: nothing depends on it.
        let _ = rustix::fs::fadvise(file, start, Some(len), Advice::DontNeed);
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
struct Stat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// The number of cachestat(2) on every architecture; since Linux 6.5.
const CACHESTAT: libc::c_long = 451;

/// Whether no page of the range is in memory. `false` where the kernel does not tell: then all is left as it is.
#[allow(unsafe_code)]
fn is_cold(file: &File, off: u64, len: u64) -> bool {
    // A length of 0 would mean all of the file.
    let range = Range { off, len: len.max(1) };
    let mut stat = Stat::default();
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
    fn what_was_not_there_before_is_gone_after() {
        let mut file = tempfile::tempfile_in(".").unwrap();
        std::io::Write::write_all(&mut file, &vec![7; 1 << 20]).unwrap();
        file.sync_data().unwrap();
        let len = 1 << 20;
        assert!(!Opened::new(file.try_clone().unwrap(), len).is_ours(0, len), "it was just written");
        release(&file, 0, len);
        if !is_cold(&file, 0, len) {
            // A kernel that does not tell, or a file system in memory.
            return;
        }
        let opened = Opened::new(file, len);
        assert!(opened.is_ours(0, len));
        opened.file.read_exact_at(&mut [0; 4096], 0).unwrap();
        assert!(!is_cold(&opened.file, 0, len) && opened.is_ours(0, len));
        release(&opened.file, 0, len);
        assert!(is_cold(&opened.file, 0, len));
    }
}
