//! Opening files of the source, and reading ranges of them.

use std::fs::File;
use std::os::unix::fs::FileExt;

use haul_core::{Entry, Error, ErrorKind, Extent, Ops, RelPath, Result};
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;

use super::page_cache::CachedFile;
use crate::path::links::DANGLING;
use crate::path::root::Root;

/// Bytes that are read and hashed at a time: they are still in the CPU cache when they are hashed.
pub(crate) const STEP: usize = 256 * 1024;

/// File systems whose files have no length: procfs, sysfs, cgroup, debugfs, tracefs.
const WITHOUT_LENGTH: [u32; 6] = [0x9fa0, 0x6265_6572, 0x0027_e0eb, 0x6367_7270, 0x6462_6720, 0x7472_6163];

/// Opens a file that was regular at the scan, without changing its access time if that is allowed.
pub(crate) fn open(root: &Root, path: &RelPath) -> Result<File> {
    let failed = |errno| match errno {
        // The file of the scan is a symbolic link now, or the link to it leads to nothing.
        Errno::LOOP => changed(root, path),
        DANGLING if root.follows_links() => changed(root, path),
        errno => root.error("open", path, errno),
    };
    let at = root.at(path).map_err(failed)?;
    // Without NONBLOCK, a pipe in place of the file would hang the open.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let opened = match root.open(&at, path, flags | OFlags::NOATIME) {
        Err(Errno::PERM) => root.open(&at, path, flags),
        other => other,
    };
    // Anything but a file has another inode than the entry, or cannot be read at an offset.
    opened.map(File::from).map_err(failed)
}

/// The error of a file that changed while it was read.
pub(crate) fn changed(root: &Root, path: &RelPath) -> Error {
    root.fault(ErrorKind::SourceChanged, "read", path, "the file changed while it was read")
}

/// Fills `bytes` from `offset` of the file, and checks the pages of a database file. Returns whether they are good, or need
/// not be.
///
/// # Errors
/// `SourceChanged` if the file ends before, else the error of reading.
pub(crate) fn read_at(
    root: &Root,
    entry: &Entry,
    opened: &CachedFile,
    bytes: &mut [u8],
    offset: u64,
) -> Result<bool> {
    read_exactly(root, entry, &opened.file, bytes, offset)?;
    opened.check_pages(&root.ops, bytes, offset).map_err(|e| failed(root, entry, &e))
}

/// Fills `bytes` from `offset` of the file.
///
/// # Errors
/// As [`read_at`].
pub(crate) fn read_exactly(
    root: &Root,
    entry: &Entry,
    file: &File,
    bytes: &mut [u8],
    offset: u64,
) -> Result<()> {
    root.ops.one();
    file.read_exact_at(bytes, offset).map_err(|e| failed(root, entry, &e))
}

fn failed(root: &Root, entry: &Entry, error: &std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => changed(root, &entry.path),
        _ => Error::io(root.side(), "read", error).on(root.shown(&entry.path)),
    }
}

/// Fails if a file of length 0 has content, on a file system whose files have no length.
///
/// # Errors
/// `Unsupported`.
pub(crate) fn check_empty(root: &Root, entry: &Entry, file: &File) -> Result<()> {
    root.ops.one();
    let has_lengths =
        rustix::fs::fstatfs(file).map_or(true, |stat| !WITHOUT_LENGTH.contains(&(stat.f_type as u32)));
    if has_lengths || !matches!(file.read_at(&mut [0; 1], 0), Ok(1)) {
        return Ok(());
    }
    let cause = "its file system tells no length of it, so how much there is cannot be known";
    let error = root.fault(ErrorKind::Unsupported, "read", &entry.path, cause);
    Err(error.with_hint("copy its content with cat, or leave it out with --exclude"))
}

/// The runs of data in `len` bytes from `start` of the entry's file, as offsets from `start`.
pub(crate) fn data_runs(
    root: &Root,
    entry: &Entry,
    file: &File,
    start: u64,
    len: u64,
) -> Result<Vec<Extent>> {
    if !entry.is_sparse() {
        return Ok(whole(len));
    }
    seek_data(&root.ops, file, start, len).map_err(|errno| root.error("read", &entry.path, errno))
}

fn whole(len: u64) -> Vec<Extent> {
    if len == 0 { Vec::new() } else { vec![Extent::data(0, len as u32)] }
}

fn seek_data(ops: &Ops, file: &File, start: u64, len: u64) -> rustix::io::Result<Vec<Extent>> {
    let end = start + len;
    let mut found = Vec::new();
    let mut at = start;
    while at < end {
        ops.some(2);
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) if data < end => data,
            Ok(_) | Err(Errno::NXIO) => break,
            // The file system cannot find holes.
            Err(Errno::INVAL | Errno::NOTSUP) => return Ok(whole(len)),
            Err(e) => return Err(e),
        };
        let hole = rustix::fs::seek(file, SeekFrom::Hole(data))?.min(end);
        if hole <= data {
            break;
        }
        found.push(Extent::data((data - start) as u32, (hole - data) as u32));
        at = hole;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use haul_core::{EntryKind, Side};

    use super::*;
    use crate::path::place::RootEntry;

    fn root(dir: &str) -> Root {
        Root::new(RootEntry::new(dir, b"."), Side::Source, Arc::default())
    }

    fn entry(name: &str, len: u64) -> Entry {
        Entry::new(RelPath::new(name.as_bytes()).unwrap(), EntryKind::File, len)
    }

    #[test]
    fn the_runs_of_data_of_a_sparse_file_are_found() {
        // On the disk of the build: a file system in memory has other blocks.
        let file = tempfile::tempfile_in(".").unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(b"x", 256 << 10).unwrap();
        let sparse = Entry { allocated: 4096, ..entry("f", 1 << 20) };
        let runs = data_runs(&root("/"), &sparse, &file, 128 << 10, 512 << 10).unwrap();
        assert_eq!(runs.len(), 1, "{runs:?}");
        let run = runs[0];
        assert!(run.start <= 128 << 10 && run.start + run.len > 128 << 10 && run.len < 512 << 10, "{run:?}");
        assert_eq!(data_runs(&root("/"), &sparse, &file, 512 << 10, 512 << 10).unwrap(), []);
        let full = Entry { allocated: 1 << 20, ..entry("f", 1 << 20) };
        assert_eq!(data_runs(&root("/"), &full, &file, 0, 9).unwrap(), [Extent::data(0, 9)]);
        assert_eq!(data_runs(&root("/"), &entry("f", 0), &file, 0, 0).unwrap(), []);
    }

    #[test]
    fn a_file_without_a_length_is_refused_if_it_has_content() {
        let (proc, status) = (root("/proc/self"), entry("status", 0));
        let file = open(&proc, &status.path).unwrap();
        let error = check_empty(&proc, &status, &file).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        check_empty(&proc, &status, &tempfile::tempfile().unwrap()).unwrap();
    }

    #[test]
    fn a_file_that_became_a_link_or_shorter_has_changed() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("x", dir.path().join("link")).unwrap();
        std::fs::write(dir.path().join("f"), "abc").unwrap();
        let root = root(dir.path().to_str().unwrap());
        let error = open(&root, &RelPath::new(b"link").unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SourceChanged);
        let error = open(&root, &RelPath::new(b"missing").unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let file = open(&root, &RelPath::new(b"f").unwrap()).unwrap();
        read_exactly(&root, &entry("f", 3), &file, &mut [0; 3], 0).unwrap();
        let error = read_exactly(&root, &entry("f", 4), &file, &mut [0; 4], 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SourceChanged);
    }
}
