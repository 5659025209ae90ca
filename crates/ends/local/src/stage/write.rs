//! Writing slices into a file, over holes or over other content.
//!
//! A local disk gets pieces that fit into the cache of the CPU. With one call of 4 MiB the kernel allocates large folios
//! and copies them past that cache; on ext4 in a virtual machine that took half as long again. A network file system gets
//! all of it in one call, which decides how many requests it becomes.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use haul_core::{Entry, Ops, SliceData};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

/// Bytes that one call writes to a local disk.
const PIECE: usize = 128 * 1024;

/// A file to write to.
#[derive(Clone, Copy)]
pub(crate) struct OutputFile<'a> {
    pub(crate) ops: &'a Ops,
    pub(crate) file: &'a File,
    /// It is on a network file system.
    pub(crate) is_remote: bool,
}

impl OutputFile<'_> {
    pub(crate) fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.ops.one();
        if self.is_remote {
            return self.file.write_all_at(bytes, at);
        }
        let mut start = at;
        for piece in bytes.chunks(PIECE) {
            self.file.write_all_at(piece, start)?;
            start += piece.len() as u64;
        }
        Ok(())
    }

    /// Begins to write a range back to the disk, so that the sync at the end waits less. Errors are left to that sync.
    #[allow(unsafe_code)]
    pub(crate) fn write_back(&self, start: u64, len: u64) {
        let (Ok(start), Ok(len)) = (i64::try_from(start), i64::try_from(len)) else { return };
        // SAFETY: the call takes numbers only; the descriptor is open as long as `file` is.
        let _ =
            unsafe { libc::sync_file_range(self.file.as_raw_fd(), start, len, libc::SYNC_FILE_RANGE_WRITE) };
    }
}

/// The state of a file that a slice is written over.
#[derive(Clone, Copy)]
pub(crate) struct Over {
    /// Something else than holes may be in place.
    pub(crate) is_dirty: bool,
    pub(crate) same: Same,
}

/// Where the unchanged bytes of a slice are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Same {
    /// In the content, and not in place yet.
    Missing,
    /// In the content, and in place too.
    InPlace,
    /// In place only.
    NotSent,
}

/// Writes a whole small file.
pub(crate) fn write_whole(
    output: &OutputFile<'_>,
    entry: &Entry,
    data: &SliceData,
    content: &[u8],
) -> io::Result<()> {
    let mut used = 0;
    for extent in &data.extents {
        let bytes = content.get(used..used + extent.len as usize).ok_or(io::ErrorKind::InvalidInput)?;
        output.write(bytes, u64::from(extent.start))?;
        used += extent.len as usize;
    }
    let written = data.extents.last().map_or(0, |e| u64::from(e.start) + u64::from(e.len));
    if written < entry.len {
        output.ops.one();
        return output.file.set_len(entry.len);
    }
    Ok(())
}

/// Writes a slice of `len` bytes at `start`. Its holes are made if the file is dirty; unchanged bytes are written only
/// if they are not in place.
pub(crate) fn overwrite(
    output: &OutputFile<'_>,
    (start, len): (u64, u64),
    data: &SliceData,
    content: &[u8],
    over: Over,
) -> io::Result<()> {
    let (mut at, mut used) = (0, 0);
    for extent in &data.extents {
        let (from, len) = (u64::from(extent.start), extent.len as usize);
        if over.is_dirty && at < from {
            make_hole(output, start + at, from - at)?;
        }
        at = from + len as u64;
        if extent.same && over.same == Same::NotSent {
            continue;
        }
        let bytes = content.get(used..used + len).ok_or(io::ErrorKind::InvalidInput)?;
        used += len;
        if !extent.same || over.same == Same::Missing {
            output.write(bytes, start + from)?;
        }
    }
    if over.is_dirty && at < len { make_hole(output, start + at, len - at) } else { Ok(()) }
}

/// Makes a hole, or writes zeros if the file system has no holes.
fn make_hole(output: &OutputFile<'_>, mut at: u64, mut len: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    output.ops.one();
    match rustix::fs::fallocate(output.file, flags, at, len) {
        Ok(()) => return Ok(()),
        Err(Errno::NOTSUP | Errno::NOSYS) => {}
        Err(errno) => return Err(errno.into()),
    }
    let zeros = [0; 64 * 1024];
    while len > 0 {
        let step = len.min(zeros.len() as u64);
        output.write(&zeros[..step as usize], at)?;
        (at, len) = (at + step, len - step);
    }
    Ok(())
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
