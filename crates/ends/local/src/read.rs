//! Reading slices: content into the batch's buffer, hashed once on the way.

use haul_core::sync::Mutex;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use haul_core::digest::SliceHasher;
use haul_core::entry::Identity;
use haul_core::{
    Batch, BatchData, Buffer, BufferPool, Entry, Error, ErrorKind, Extent, Ops, RelPath, Result, SLICE_LEN,
    Slice, SliceData,
};
use rustix::fs::{Advice, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use super::descriptors;
use super::early::Early;
use super::pagecache::{self, Opened};
use super::root::Root;
use super::stat;
use haul_ends::cache::Cache;
use haul_ends::thread_pool::ThreadPool;

/// Bytes read and hashed at a time: they are still in the processor's cache when they are hashed.
pub(super) const STEP: usize = 256 * 1024;
/// Large files that are kept open between their slices.
const OPEN_FILES: usize = 64;

/// Reads files below a root.
pub(super) struct Reader {
    open: Mutex<Cache<RelPath, Arc<Opened>>>,
    pub(super) pool: BufferPool,
    pub(super) early: Early,
    threads: ThreadPool,
}

impl Reader {
    pub(super) fn new(pool: BufferPool, threads: ThreadPool) -> Self {
        let files = descriptors::share(16).min(OPEN_FILES);
        Self { open: Mutex::new(Cache::new(files)), pool, early: Early::default(), threads }
    }

    /// Reads every slice of a batch; what fails takes no room in the content.
    pub(super) fn read(&self, root: &Root, batch: &Arc<Batch>) -> BatchData {
        let mut content = if batch.entries.iter().all(|entry| entry.len == 0) {
            Buffer::default()
        } else {
            self.pool.take()
        };
        // Each slice has room for all of it, so that several can be read at once.
        let lens: Vec<usize> = batch.iter().map(|(entry, slice)| slice.len_in(entry.len) as usize).collect();
        let Some(mut room) = content.grow(lens.iter().sum()) else {
            let error = |(entry, _): (&Arc<Entry>, Slice)| {
                Err(root.fault(ErrorKind::Protocol, "read", &entry.path, "the batch is too large"))
            };
            let slices = batch.iter().map(error).collect();
            return BatchData { batch: batch.clone(), slices, content: Buffer::default(), at_hand: true };
        };
        let mut jobs = Vec::with_capacity(lens.len());
        for ((entry, slice), len) in batch.iter().zip(&lens) {
            let (part, rest) = std::mem::take(&mut room).split_at_mut(*len);
            jobs.push((entry, slice, Mutex::new(part)));
            room = rest;
        }
        let slices: Vec<Result<SliceData>> = self.threads.each(&jobs, |(entry, slice, part)| {
            let mut part = part.lock();
            self.slice(root, entry, *slice, &mut part)
        });
        drop(jobs);
        // What is a hole, or failed, takes no room in the end.
        let (mut from, mut used) = (0, 0);
        for (slice, len) in slices.iter().zip(lens) {
            let read = slice.as_ref().map_or(0, |slice| slice.data_len() as usize);
            content.shift(from, used, read);
            from += len;
            used += read;
        }
        content.truncate(used);
        BatchData { batch: batch.clone(), slices, content, at_hand: true }
    }

    /// Reads the data of one slice into the beginning of `room`, which has room for all of it.
    fn slice(&self, root: &Root, entry: &Entry, slice: Slice, room: &mut [u8]) -> Result<SliceData> {
        let _doing = root.doing("read", &entry.path);
        let opened = self.file(root, entry)?;
        let file = &opened.file;
        let failed = |errno| root.error("read", &entry.path, errno);
        let (start, len) = (slice.start(), slice.len_in(entry.len));
        let extents = if entry.is_sparse() {
            extents(&root.ops, file, start, len).map_err(failed)?
        } else {
            whole(len)
        };
        let ours = match slice.part {
            Some(_) => opened.is_ours_in_parts(entry.len, slice.index),
            None => opened.is_ours(start, len),
        };
        let mut hasher = SliceHasher::new(entry.len, start);
        let (mut at, mut used) = (0, 0);
        for extent in &extents {
            hasher.update_zeros(u64::from(extent.start) - at);
            at = u64::from(extent.start) + u64::from(extent.len);
            let mut left = extent.len as usize;
            while left > 0 {
                let step = left.min(STEP);
                // Extents are within the slice.
                let bytes = &mut room[used..used + step];
                read_at(root, entry, file, bytes, start + at - left as u64)?;
                hasher.update(bytes);
                left -= step;
                used += step;
            }
        }
        hasher.update_zeros(len - at);
        if entry.len == 0 {
            is_really_empty(root, entry, file)?;
        }
        if ours {
            pagecache::release(file, start, len);
        }
        self.is_unchanged(root, entry, file)?;
        Ok(SliceData { extents, value: hasher.finish() })
    }

    /// Checked after the bytes were read: a file that still has the size, time and inode of the scan was not written to
    /// before that moment.
    pub(super) fn is_unchanged(&self, root: &Root, entry: &Entry, file: &File) -> Result<()> {
        root.ops.one();
        let now = stat::identity(file).map_err(|errno| root.error("read", &entry.path, errno))?;
        if now != (Identity { ctime: None, ..entry.identity() }) {
            self.lock().forget(|path| *path == entry.path);
            return Err(changed(root, &entry.path));
        }
        Ok(())
    }

    /// The open file of an entry; large files stay open between their slices.
    pub(super) fn file(&self, root: &Root, entry: &Entry) -> Result<Arc<Opened>> {
        let large = entry.len > SLICE_LEN;
        if large && let Some(file) = self.lock().get(&entry.path) {
            return Ok(file);
        }
        let file = Arc::new(Opened::new(open(root, &entry.path)?, entry.len));
        if !large {
            return Ok(file);
        }
        // Slices are read by several threads, each from front to back.
        let _ = rustix::fs::fadvise(&file.file, 0, None, Advice::Sequential);
        // The first one to open it has found out what was in memory before any of it was read here.
        Ok(self.lock().put_new(entry.path.clone(), file))
    }

    fn lock(&self) -> haul_core::sync::MutexGuard<'_, Cache<RelPath, Arc<Opened>>> {
        self.open.lock()
    }
}

/// Opens what was a regular file at the scan for reading, without touching its access time where that is allowed.
pub(super) fn open(root: &Root, path: &RelPath) -> Result<File> {
    let failed = |errno| match errno {
        // What was a file at the scan is a link now.
        Errno::LOOP => changed(root, path),
        errno => root.error("open", path, errno),
    };
    let at = root.at(path).map_err(failed)?;
    // Without NONBLOCK, a pipe that was put in the file's place would hang the open.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let opened = match at.open(flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => at.open(flags, Mode::empty()),
        other => other,
    };
    // What is no file now has another inode than the entry, or cannot be read at a position.
    opened.map(File::from).map_err(failed)
}

/// File systems whose files have no length of their own: procfs, sysfs, cgroup, debugfs, tracefs.
const WITHOUT_LENGTH: [u32; 6] = [0x9fa0, 0x6265_6572, 0x0027_e0eb, 0x6367_7270, 0x6462_6720, 0x7472_6163];

/// Fails if there is content in a file whose length is told as 0, where the file system tells no lengths.
fn is_really_empty(root: &Root, entry: &Entry, file: &File) -> Result<()> {
    root.ops.one();
    let has_lengths =
        rustix::fs::fstatfs(file).map_or(true, |stat| !WITHOUT_LENGTH.contains(&(stat.f_type as u32)));
    if has_lengths || !matches!(file.read_at(&mut [0; 1], 0), Ok(1)) {
        return Ok(());
    }
    let cause = "its file system tells no length of it, so how much there is cannot be known";
    let error = root.fault(haul_core::ErrorKind::Unsupported, "read", &entry.path, cause);
    Err(error.with_hint("copy what it holds with cat, or leave it out with --exclude"))
}

pub(super) fn changed(root: &Root, path: &RelPath) -> Error {
    root.fault(ErrorKind::SourceChanged, "read", path, "the file changed while it was read")
}

/// Fills `bytes` with what is at `offset`.
pub(super) fn read_at(root: &Root, entry: &Entry, file: &File, bytes: &mut [u8], offset: u64) -> Result<()> {
    root.ops.one();
    file.read_exact_at(bytes, offset).map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => changed(root, &entry.path),
        _ => Error::io(root.side(), "read", &e).on(root.shown(&entry.path)),
    })
}

pub(super) fn whole(len: u64) -> Vec<Extent> {
    if len == 0 { Vec::new() } else { vec![Extent::data(0, len as u32)] }
}

/// The runs of data in `len` bytes from `start`, as offsets from `start`.
pub(super) fn extents(ops: &Ops, file: &File, start: u64, len: u64) -> rustix::io::Result<Vec<Extent>> {
    let end = start + len;
    let mut found = Vec::new();
    let mut at = start;
    while at < end {
        ops.some(2);
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) if data < end => data,
            Ok(_) | Err(Errno::NXIO) => break,
            // The file system does not tell holes from data.
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
