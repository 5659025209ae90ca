//! Reads small objects whole and many at a time, large files one slice at a time, and compares the content with the
//! recorded digest or checksum.

use haul_core::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::digest::SliceHasher;
use haul_core::{
    Batch, BatchData, Buffer, ChainingValue, Digest, Entry, Error, ErrorKind, Extent, FileTree, RelPath,
    Result, SLICE_LEN, Sha256, Slice, SliceData,
};
use haul_streams::get::Check;
use haul_streams::sidecar;

use super::metadata_cache::CachedObject;
use super::prefetch::PrefetchedContent;
use super::source_state::{LargeFileCheck, SourceState};
use haul_ends::digests::digests;

/// Batches that are read at a time for their digests.
const HASHERS: u32 = 8;

/// In a sparse file, blocks of so many zero bytes become holes.
const BLOCK: usize = 4096;

/// A slice to be read, and the space for its bytes.
struct SliceJob<'a> {
    entry: &'a Arc<Entry>,
    slice: Slice,
    space: Mutex<&'a mut [u8]>,
}

/// Reads and hashes the slices of a batch.
pub(super) fn read(source: &SourceState, batch: &Arc<Batch>) -> Result<BatchData> {
    let lens: Vec<usize> = batch.iter().map(|(entry, slice)| slice.len_in(entry.len) as usize).collect();
    let total: usize = lens.iter().sum();
    let mut content = if total == 0 { Buffer::default() } else { source.buffers.take() };
    let mut slices = {
        let Some(mut space) = content.grow(total) else {
            let error = Error::new(ErrorKind::Protocol, source.tree.side, "read", "the batch is too large");
            return Err(error);
        };
        let mut jobs = Vec::with_capacity(lens.len());
        for ((entry, slice), len) in batch.iter().zip(&lens) {
            let (own, rest) = std::mem::take(&mut space).split_at_mut(*len);
            space = rest;
            jobs.push(SliceJob { entry, slice, space: Mutex::new(own) });
        }
        source.fetch.each(&jobs, |job| {
            let mut space = job.space.lock();
            slice(source, job.entry, job.slice, &mut space)
        })
    };
    // Closes the gaps that failed reads and holes left.
    let (mut from, mut to) = (0, 0);
    for (read, len) in slices.iter_mut().zip(lens) {
        for extent in read.iter().flat_map(|data| &data.extents) {
            content.shift(from + extent.start as usize, to, extent.len as usize);
            to += extent.len as usize;
        }
        from += len;
    }
    content.truncate(to);
    if let Some(error) = slices.iter().filter_map(|read| read.as_ref().err()).find(|error| is_lost(error)) {
        return Err(error.clone());
    }
    Ok(BatchData { batch: Arc::clone(batch), slices, content, at_hand: true })
}

fn is_lost(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Cancelled)
}

fn slice(source: &SourceState, entry: &Arc<Entry>, slice: Slice, space: &mut [u8]) -> Result<SliceData> {
    let object = current(source, entry)?;
    let value = fill(source, &object, entry, slice, space)?;
    source.prefetch.was_read(entry.len);
    if entry.len <= SLICE_LEN {
        check_small(source, &object, entry, space, value)?;
    } else {
        check_large(source, &object, entry, slice, value)?;
    }
    Ok(SliceData { extents: extents(space, entry.is_sparse()), value })
}

/// Fills `space` with the bytes of a slice, prefetched or requested now. Returns their hash: they are hashed while they
/// arrive, in the cache of the CPU.
fn fill(
    source: &SourceState,
    object: &CachedObject,
    entry: &Entry,
    slice: Slice,
    space: &mut [u8],
) -> Result<ChainingValue> {
    let (mut at, mut fits) = (0, true);
    let new_hasher = || SliceHasher::new(entry.len, slice.start());
    let mut hasher = new_hasher();
    let mut take = |bytes: Option<&[u8]>| match bytes {
        None => (at, hasher) = (0, new_hasher()),
        Some(bytes) => match space.get_mut(at..at + bytes.len()) {
            Some(space) => {
                space.copy_from_slice(bytes);
                hasher.update(bytes);
                at += bytes.len();
            }
            None => fits = false,
        },
    };
    let client = &source.tree.client;
    let prefetched = object.content.as_ref().and_then(PrefetchedContent::take);
    let is_prefetched = prefetched.is_some();
    let read = match (prefetched, entry.len) {
        (_, 0) => Ok(()),
        (_, len) if len > SLICE_LEN => {
            let range = slice.start()..slice.start() + slice.len_in(entry.len);
            client.read(&object.object, range, &AtomicBool::new(false), &mut take)
        }
        (Some(bytes), _) => {
            take(Some(&bytes));
            Ok(())
        }
        (None, _) => client.read_object(&object.object, &mut take),
    };
    read.inspect_err(|error| {
        if matches!(error.kind(), ErrorKind::SourceChanged | ErrorKind::NotFound) {
            source.cache.forget(&entry.path);
        }
    })?;
    if !fits || at != space.len() {
        let cause = "the store sent another length than it was asked for";
        return Err(source.tree.error(ErrorKind::Protocol, "read", &entry.path, cause));
    }
    if !is_prefetched {
        source.came.fetch_add(at as u64, Ordering::Relaxed);
    }
    Ok(hasher.finish())
}

/// Checks a whole small file against its recorded digest, or else against the checksum that the store keeps.
fn check_small(
    source: &SourceState,
    object: &CachedObject,
    entry: &Entry,
    bytes: &[u8],
    value: ChainingValue,
) -> Result<()> {
    match object.digest {
        Some(digest) if digest.0 != value.0 => Err(differs(source, entry, &Digest(value.0), &digest)),
        Some(_) => Ok(()),
        None => {
            let mut check = Check::new(&object.object, None);
            check.update(bytes);
            check.finish(&source.tree.shown(&entry.path)).map(drop)
        }
    }
}

/// The cached or requested object, if it still matches `entry`.
fn current(source: &SourceState, entry: &Entry) -> Result<Arc<CachedObject>> {
    let path = &entry.path;
    let known = source.cache.get(path).filter(|cached| cached.entry.identity() == entry.identity());
    let cached = match known {
        Some(cached) => Some(cached),
        None => source.ask(path)?,
    };
    cached.filter(|cached| cached.entry.identity() == entry.identity() && cached.entry.is_file()).ok_or_else(
        || {
            source.cache.forget(path);
            source.tree.error(ErrorKind::SourceChanged, "read", path, "it is another object by now")
        },
    )
}

fn differs(source: &SourceState, entry: &Entry, found: &Digest, recorded: &Digest) -> Error {
    let cause = format!("its BLAKE3 is {found}, and {recorded} was recorded");
    source.tree.error(ErrorKind::Corrupt, "verify", &entry.path, &cause)
}

/// Checks a large file against its recorded digest, once all of its slices were read.
fn check_large(
    source: &SourceState,
    cached: &CachedObject,
    entry: &Entry,
    slice: Slice,
    value: ChainingValue,
) -> Result<()> {
    let checked = {
        let mut large_files = source.large_files.lock();
        let identity = entry.identity();
        let new = || {
            let tree = Mutex::new(FileTree::new(entry.len));
            Arc::new(LargeFileCheck { identity, recorded: Mutex::default(), tree })
        };
        let checked = large_files.entry(entry.path.clone()).or_insert_with(new);
        if checked.identity != identity {
            *checked = new();
        }
        Arc::clone(checked)
    };
    let recorded = {
        // The other slices wait for the one answer.
        let mut recorded = checked.recorded.lock();
        match *recorded {
            Some(known) => known,
            None => {
                let asked = match cached.digest {
                    Some(digest) => Some(digest),
                    None => sidecar::digest_of(&source.tree.client, &cached.object)?,
                };
                *recorded.insert(asked)
            }
        }
    };
    let mut tree = checked.tree.lock();
    tree.set(slice.index, value);
    let (Some(recorded), Some(found)) = (recorded, whole(&tree)) else {
        return Ok(());
    };
    if found != recorded {
        return Err(differs(source, entry, &found, &recorded));
    }
    source.large_files.lock().remove(&entry.path);
    Ok(())
}

/// The digest of a file whose slices were all read.
fn whole(tree: &FileTree) -> Option<Digest> {
    if tree.missing() == 0 { tree.digest() } else { None }
}

/// The ranges of data; blocks of zeros in a sparse file are holes.
fn extents(bytes: &[u8], sparse: bool) -> Vec<Extent> {
    let mut extents: Vec<Extent> = Vec::new();
    let step = if sparse { BLOCK } else { bytes.len().max(1) };
    for (at, block) in bytes.chunks(step).enumerate() {
        if sparse && block.iter().all(|byte| *byte == 0) {
            continue;
        }
        let (start, len) = ((at * step) as u32, block.len() as u32);
        match extents.last_mut() {
            Some(last) if last.start + last.len == start => last.len += len,
            _ => extents.push(Extent::data(start, len)),
        }
    }
    extents
}

/// The digests of whole files as they are now, by reading them.
pub(super) fn digest(source: &SourceState, paths: &[RelPath]) -> Result<Vec<Result<Digest>>> {
    digests(files(source, paths), HASHERS, |batch| source.hashed.read(batch, |batch| read(source, batch)))
}

/// The same with the SHA-256 of each file.
pub(super) fn sha256(source: &SourceState, paths: &[RelPath]) -> Result<Vec<Result<Sha256>>> {
    haul_ends::sha256::sha256(files(source, paths), HASHERS, |batch| {
        source.hashed.read(batch, |batch| read(source, batch))
    })
}

/// The files at these paths.
fn files(source: &SourceState, paths: &[RelPath]) -> Vec<Result<Arc<Entry>>> {
    source.look.each(paths, |path| match source.ask(path) {
        Ok(Some(cached)) if cached.entry.is_file() => Ok(Arc::new(cached.entry.clone())),
        Ok(Some(_)) => Err(source.tree.error(ErrorKind::SourceChanged, "read", path, "it is no file by now")),
        Ok(None) => Err(source.tree.error(ErrorKind::NotFound, "read", path, "there is no such object")),
        Err(error) => Err(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zero_blocks_of_sparse_files_are_holes() {
        let mut bytes = vec![0; 5 * BLOCK + 7];
        bytes[BLOCK] = 1;
        bytes[5 * BLOCK + 6] = 1;
        let one = |start: usize, len: usize| Extent::data(start as u32, len as u32);
        assert_eq!(extents(&bytes, true), [one(BLOCK, BLOCK), one(5 * BLOCK, 7)]);
        assert_eq!(extents(&bytes, false), [one(0, bytes.len())]);
        assert!(extents(&[], true).is_empty() && extents(&[], false).is_empty());
        assert!(extents(&[0; 10], true).is_empty());
    }
}
