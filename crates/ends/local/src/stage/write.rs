//! Writing slices into a file, over holes or over other content.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use haul_core::{Entry, Ops, SliceData};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

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
    ops: &Ops,
    file: &File,
    entry: &Entry,
    data: &SliceData,
    content: &[u8],
) -> io::Result<()> {
    write_extents(ops, file, data, content)?;
    let written = data.extents.last().map_or(0, |e| u64::from(e.start) + u64::from(e.len));
    if written < entry.len {
        ops.one();
        return file.set_len(entry.len);
    }
    Ok(())
}

fn write_extents(ops: &Ops, file: &File, data: &SliceData, content: &[u8]) -> io::Result<()> {
    let mut used = 0;
    for extent in &data.extents {
        let bytes = content.get(used..used + extent.len as usize).ok_or(io::ErrorKind::InvalidInput)?;
        ops.one();
        file.write_all_at(bytes, u64::from(extent.start))?;
        used += extent.len as usize;
    }
    Ok(())
}

/// Writes a slice of `len` bytes at `start`. Its holes are made if the file is dirty; unchanged bytes are written only
/// if they are not in place.
pub(crate) fn overwrite(
    ops: &Ops,
    file: &File,
    (start, len): (u64, u64),
    data: &SliceData,
    content: &[u8],
    over: Over,
) -> io::Result<()> {
    let (mut at, mut used) = (0, 0);
    for extent in &data.extents {
        let (from, len) = (u64::from(extent.start), extent.len as usize);
        if over.is_dirty && at < from {
            make_hole(ops, file, start + at, from - at)?;
        }
        at = from + len as u64;
        if extent.same && over.same == Same::NotSent {
            continue;
        }
        let bytes = content.get(used..used + len).ok_or(io::ErrorKind::InvalidInput)?;
        used += len;
        if !extent.same || over.same == Same::Missing {
            ops.one();
            file.write_all_at(bytes, start + from)?;
        }
    }
    if over.is_dirty && at < len { make_hole(ops, file, start + at, len - at) } else { Ok(()) }
}

/// Makes a hole, or writes zeros if the file system has no holes.
fn make_hole(ops: &Ops, file: &File, mut at: u64, mut len: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    ops.one();
    match rustix::fs::fallocate(file, flags, at, len) {
        Ok(()) => return Ok(()),
        Err(Errno::NOTSUP | Errno::NOSYS) => {}
        Err(errno) => return Err(errno.into()),
    }
    let zeros = [0; 64 * 1024];
    while len > 0 {
        let step = len.min(zeros.len() as u64);
        ops.one();
        file.write_all_at(&zeros[..step as usize], at)?;
        (at, len) = (at + step, len - step);
    }
    Ok(())
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
