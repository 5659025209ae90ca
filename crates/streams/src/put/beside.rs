//! The index of a file, written beside it.

use std::sync::Arc;
use std::sync::mpsc::channel;

use haul_core::digest::{SliceHasher, slice_count};
use haul_core::{Answer, Entry, Error, ErrorKind, Extent, Offer, Outcome, RelPath, Result, SLICE_LEN, Side};

use super::settings::FileTarget;
use super::slices::batch;
use crate::index_file::{self, IndexFile};

/// Writes the index of a file of `len` bytes beside it; without one, removes that of an earlier file.
pub(super) fn index_beside(target: &FileTarget, len: u64, index: Option<&[u8]>) -> Result<()> {
    let path = index_file::path_of(&target.path)?;
    match index {
        Some(index) => write(target, &path, &IndexFile { etag: String::new(), len }.bytes(index)),
        None => {
            let found = target.there.lookup(std::slice::from_ref(&path))?.pop().transpose()?.flatten();
            match found {
                Some(entry) if entry.is_file() => {
                    target.sink.remove(&[path])?.into_iter().collect::<Result<Vec<()>>>().map(drop)
                }
                _ => Ok(()),
            }
        }
    }
}

/// Writes a short file whole.
///
/// # Errors
/// That of writing it.
pub fn write_file(target: &FileTarget, bytes: &[u8]) -> Result<()> {
    write(target, &target.path, bytes)?;
    target.sink.finish().map(drop)
}

fn write(target: &FileTarget, path: &RelPath, bytes: &[u8]) -> Result<()> {
    let failed =
        |cause: &str| Error::new(ErrorKind::Io, Side::Destination, "write", cause).on(path.as_bytes());
    let entry = Arc::new(Entry::stream(path.clone(), bytes.len() as u64));
    let digest = Some(haul_core::Digest::of(bytes));
    match target.sink.offer(&[Offer { entry: Arc::clone(&entry), digest }])?.pop().transpose()? {
        Some(Answer::Need { .. }) => {}
        Some(Answer::Same | Answer::Updated(_)) => return Ok(()),
        _ => return Err(failed("the destination does not take it")),
    }
    for (index, slice) in (0..slice_count(entry.len)).zip(bytes.chunks(SLICE_LEN as usize)) {
        let mut content = target.pool.take();
        content.grow(slice.len()).ok_or_else(|| failed("there is no memory for it"))?.copy_from_slice(slice);
        let mut hasher = SliceHasher::new(entry.len, u64::from(index) * SLICE_LEN);
        hasher.update(slice);
        let extent = Some(Extent::data(0, slice.len() as u32));
        let (sender, receiver) = channel();
        let data = batch(&entry, index, (extent, hasher.finish()), content, false);
        target.sink.write(data, Box::new(move |outcomes| drop(sender.send(outcomes))));
        target.sink.flush();
        let lost = || failed("the thread that had it ended early");
        let outcome = receiver.recv().map_err(|_| lost())?.pop().ok_or_else(lost)??;
        if index + 1 == slice_count(entry.len) && !matches!(outcome, Outcome::Committed(_)) {
            return Err(failed("it was sent, and the destination does not say that it is there"));
        }
    }
    Ok(())
}
