//! Reading: small objects whole and many at a time, large files a slice at a time. What is recorded of an object is compared
//! with what came.

use haul_core::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::digest::SliceHasher;
use haul_core::entry::Identity;
use haul_core::{
    Batch, BatchData, Buffer, Digest, Entry, Error, ErrorKind, Extent, FileTree, RelPath, Result, SLICE_LEN,
    Slice, SliceData,
};
use haul_object::get::Check;
use haul_object::sidecar;

use super::ahead::Content;
use super::known::Fact;
use super::source::ObjectSource;
use haul_ends::digests::digests;

/// Batches that are read at a time to hash what is in them.
const HASHERS: u32 = 8;

/// Zeros are left out by whole blocks of so many bytes where a file had holes.
const BLOCK: usize = 4096;

/// What was read of a large file so far, and its digest, where one is recorded.
pub(super) struct Checked {
    identity: Identity,
    /// Once it was asked for.
    recorded: Mutex<Option<Option<Digest>>>,
    tree: Mutex<FileTree>,
}

/// A slice that is to be read, and where its bytes go.
struct Job<'a> {
    entry: &'a Arc<Entry>,
    slice: Slice,
    space: Mutex<&'a mut [u8]>,
}

/// Reads the slices of a batch and hashes them.
pub(super) fn read(source: &ObjectSource, batch: &Arc<Batch>) -> Result<BatchData> {
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
            jobs.push(Job { entry, slice, space: Mutex::new(own) });
        }
        source.fetch.each(&jobs, |job| {
            let mut space = job.space.lock();
            slice(source, job.entry, job.slice, &mut space)
        })
    };
    // What was not read, and holes, are taken out.
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

fn slice(source: &ObjectSource, entry: &Arc<Entry>, slice: Slice, space: &mut [u8]) -> Result<SliceData> {
    let fact = current(source, entry)?;
    let start = slice.start();
    let mut at = 0;
    let mut fits = true;
    let mut take = |bytes: Option<&[u8]>| match bytes {
        None => at = 0,
        Some(bytes) => match space.get_mut(at..at + bytes.len()) {
            Some(space) => {
                space.copy_from_slice(bytes);
                at += bytes.len();
            }
            None => fits = false,
        },
    };
    let client = &source.tree.client;
    let whole = entry.len <= SLICE_LEN;
    let ahead = fact.content.as_ref().and_then(Content::take);
    let is_ahead = ahead.is_some();
    let read = match (entry.len, whole) {
        (0, _) => Ok(()),
        (_, true) => match ahead {
            Some(bytes) => {
                take(Some(&bytes));
                Ok(())
            }
            None => client.read_object(&fact.object, &mut take),
        },
        (_, false) => {
            let range = start..start + slice.len_in(entry.len);
            client.read(&fact.object, range, &AtomicBool::new(false), &mut take)
        }
    };
    read.inspect_err(|error| {
        if matches!(error.kind(), ErrorKind::SourceChanged | ErrorKind::NotFound) {
            source.known.forget(&entry.path);
        }
    })?;
    if !fits || at != space.len() {
        let cause = "the store sent another length than it was asked for";
        return Err(source.tree.error(ErrorKind::Protocol, "read", &entry.path, cause));
    }
    if !is_ahead {
        source.came.fetch_add(at as u64, Ordering::Relaxed);
    }
    source.ahead.was_read(entry.len);
    let mut hasher = SliceHasher::new(entry.len, start);
    hasher.update(space);
    let value = hasher.finish();
    if whole {
        match fact.digest {
            Some(digest) if digest.0 != value.0 => {
                return Err(differs(source, entry, &Digest(value.0), &digest));
            }
            Some(_) => {}
            None => {
                let mut check = Check::new(&fact.object, None);
                check.update(space);
                check.finish(&source.tree.shown(&entry.path))?;
            }
        }
    } else {
        check_large(source, &fact, entry, slice, value)?;
    }
    Ok(SliceData { extents: extents(space, entry.is_sparse()), value })
}

/// What is known of the object, if it still is what `entry` says.
fn current(source: &ObjectSource, entry: &Entry) -> Result<Arc<Fact>> {
    let path = &entry.path;
    let known = source.known.get(path).filter(|fact| fact.entry.identity() == entry.identity());
    let fact = match known {
        Some(fact) => Some(fact),
        None => source.ask(path)?,
    };
    fact.filter(|fact| fact.entry.identity() == entry.identity() && fact.entry.is_file()).ok_or_else(|| {
        source.known.forget(path);
        source.tree.error(ErrorKind::SourceChanged, "read", path, "it is another object by now")
    })
}

fn differs(source: &ObjectSource, entry: &Entry, found: &Digest, recorded: &Digest) -> Error {
    let cause = format!("its BLAKE3 is {found}, and {recorded} was recorded");
    source.tree.error(ErrorKind::Corrupt, "verify", &entry.path, &cause)
}

/// Compares the digest of a large file with the one that is recorded, once all of it was read.
fn check_large(
    source: &ObjectSource,
    fact: &Fact,
    entry: &Entry,
    slice: Slice,
    value: haul_core::ChainingValue,
) -> Result<()> {
    let checked = {
        let mut large_files = source.large_files.lock();
        let identity = entry.identity();
        let new = || {
            let tree = Mutex::new(FileTree::new(entry.len));
            Arc::new(Checked { identity, recorded: Mutex::default(), tree })
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
                let asked = match fact.digest {
                    Some(digest) => Some(digest),
                    None => sidecar::digest_of(&source.tree.client, &fact.object)?,
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

/// The digest of a file of which all was read.
fn whole(tree: &FileTree) -> Option<Digest> {
    if tree.missing() == 0 { tree.digest() } else { None }
}

/// The runs of bytes that are data; blocks of zeros are none where the file had holes.
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
pub(super) fn digest(source: &ObjectSource, paths: &[RelPath]) -> Result<Vec<Result<Digest>>> {
    let entries = source.look.each(paths, |path| match source.ask(path) {
        Ok(Some(fact)) if fact.entry.is_file() => Ok(Arc::new(fact.entry.clone())),
        Ok(Some(_)) => Err(source.tree.error(ErrorKind::SourceChanged, "read", path, "it is no file by now")),
        Ok(None) => Err(source.tree.error(ErrorKind::NotFound, "read", path, "there is no such object")),
        Err(error) => Err(error),
    });
    digests(entries, HASHERS, |batch| read(source, batch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blocks_of_zeros_of_sparse_files_are_holes() {
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
