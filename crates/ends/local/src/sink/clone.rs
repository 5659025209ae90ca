//! Copies that the file system makes by sharing blocks.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::digest::{slice_count, slice_len};
use haul_core::sink::CloneRead;
use haul_core::{ChainingValue, Digest, Entry, Error, ErrorKind, FileTree, Outcome, Result};
use rustix::io::Errno;

use super::state::LocalSink;
use crate::path::root::Root;
use crate::path::stat;
use crate::read::digest::of_slice;
use crate::read::file::STEP;
use crate::read::page_cache::CachedFile;
use crate::stage::staged::Staged;

/// Makes the entry's file a clone of `from`. `None` if the file system cannot: then nothing was changed.
pub(crate) fn clone_file(
    sink: &LocalSink,
    entry: &Entry,
    from: &File,
    read: Option<&CloneRead<'_>>,
) -> Result<Option<Outcome>> {
    let (tree, root) = (sink.tree(), sink.root());
    if tree.is_network_fs() && !tree.shares_device(from) {
        // Blocks are shared within one file system only, and a try costs as much as a file.
        return Ok(None);
    }
    let staged = Staged::open(tree, &entry.path)?;
    let failed = |errno| root.error("clone", &entry.path, errno);
    let abandoned = |_: &Error| staged.abandon();
    // A clone does not shorten a longer file.
    let cleared = staged.clear().map_err(|e| Error::io(root.side(), "clone", &e).on(root.shown(&entry.path)));
    cleared.inspect_err(abandoned)?;
    root.ops.one();
    match rustix::fs::ioctl_ficlone(&staged.file, from) {
        Ok(()) => {}
        Err(Errno::NOTSUP | Errno::XDEV | Errno::INVAL | Errno::NOTTY | Errno::NOSYS | Errno::PERM) => {
            staged.part.remove().map_err(failed)?;
            return Ok(None);
        }
        Err(errno) => return Err(failed(errno)).inspect_err(abandoned),
    }
    check_unchanged(root, entry, from).inspect_err(abandoned)?;
    let digest =
        read.map(|read| read_back(sink, entry, &staged.file, read)).transpose().inspect_err(abandoned)?;
    let set = sink.metadata().set_written(&staged.written(), entry).map_err(failed);
    set.inspect_err(abandoned)?;
    if sink.options.durable {
        root.ops.one();
        let synced = staged.file.sync_data();
        let synced = synced.map_err(|e| Error::io(root.side(), "sync", &e).on(root.shown(&entry.path)));
        synced.inspect_err(abandoned)?;
    }
    staged.publish(tree, &entry.path).inspect_err(abandoned)?;
    Ok(Some(Outcome::Committed(digest)))
}

/// Called after the file was cloned: the clone is the file of the scan if that has not changed since.
fn check_unchanged(root: &Root, entry: &Entry, from: &File) -> Result<()> {
    root.ops.one();
    if stat::is_as_scanned(from, entry).map_err(|errno| root.error("clone", &entry.path, errno))? {
        return Ok(());
    }
    Err(root.fault(ErrorKind::SourceChanged, "clone", &entry.path, "the file has changed since the scan"))
}

/// Reads a clone and hashes it. A clone shares the blocks of its file, but not the page cache: it is read from the disk.
/// Reading ends at the first error, and if `read` says so.
fn read_back(sink: &LocalSink, entry: &Entry, clone: &File, read: &CloneRead<'_>) -> Result<Digest> {
    let root = sink.root();
    let failed = |e: &std::io::Error| Error::io(root.side(), "read back", e).on(root.shown(&entry.path));
    let len = entry.len;
    let opened = CachedFile::new(clone.try_clone().map_err(|e| failed(&e))?, len);
    let has_ended = AtomicBool::new(false);
    let hash = |index: &u32| -> Result<ChainingValue> {
        if has_ended.load(Ordering::Relaxed) || !read(0) {
            return Err(root.fault(ErrorKind::Cancelled, "read back", &entry.path, "the run was stopped"));
        }
        let _doing = sink.tree().doing("read back", &entry.path);
        let slice = slice_len(len, *index);
        let value = of_slice(&root.ops, &opened.file, len, *index, &mut vec![0; STEP.min(slice as usize)]);
        has_ended.fetch_or(value.is_err() || !read(slice), Ordering::Relaxed);
        value.map_err(|e| failed(&e))
    };
    let slices: Vec<u32> = (0..slice_count(len)).collect();
    let values = sink.threads.each(&slices, hash);
    let errors = || values.iter().filter_map(|value| value.as_ref().err());
    // The error that ended it, not those of the slices that were not read for that reason.
    if let Some(error) =
        errors().find(|error| error.kind() != ErrorKind::Cancelled).or_else(|| errors().next())
    {
        return Err(error.clone());
    }
    let mut tree = FileTree::new(len);
    for (index, value) in slices.iter().zip(values.iter().flatten()) {
        tree.set(*index, *value);
    }
    tree.digest().ok_or_else(|| failed(&std::io::Error::other("a slice is missing")))
}
