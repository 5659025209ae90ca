//! Digests of whole files, which several threads read in batches.

use haul_core::sync::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

use haul_core::digest::slice_count;
use haul_core::{
    Batch, BatchData, Digest, Entry, Error, ErrorKind, FileTree, Result, SLICE_LEN, Side, Slice,
};
use haul_threads::together;

/// The most files in one batch.
const BATCH_FILES: usize = 256;

/// The digests of files, or their errors. Up to `threads` batches are read with `read` at a time.
///
/// # Errors
/// The first error of `read`, or `Io` if no thread can be started.
pub fn digests(
    entries: Vec<Result<Arc<Entry>>>,
    threads: u32,
    read: impl Fn(&Arc<Batch>) -> Result<BatchData> + Sync,
) -> Result<Vec<Result<Digest>>> {
    let batches = Mutex::new(cut(&entries));
    let trees: Vec<Mutex<Result<FileTree>>> =
        entries.into_iter().map(|entry| Mutex::new(entry.map(|entry| FileTree::new(entry.len)))).collect();
    let next = || batches.lock().next();
    let work = || -> Result<()> {
        while let Some((batch, owners)) = next() {
            let data = read(&batch)?;
            for ((owner, slice), read) in owners.iter().zip(&data.batch.slices).zip(data.slices) {
                let mut tree = trees[*owner].lock();
                match (&mut *tree, read) {
                    (Ok(tree), Ok(data)) => tree.set(slice.index, data.value),
                    (Ok(_), Err(error)) => *tree = Err(error),
                    (Err(_), _) => {}
                }
            }
        }
        Ok(())
    };
    together(threads as usize, "hash", work)?.into_iter().collect::<Result<()>>()?;
    let missing = || Error::new(ErrorKind::Io, Side::Local, "hash", "a slice is missing");
    Ok(trees.into_iter().map(|one| one.into_inner()?.digest().ok_or_else(missing)).collect())
}

/// The batches that are left. The slices of a large file are made one by one, because a server may claim any length.
pub(crate) struct DigestWork {
    pub(crate) large_files: VecDeque<(Arc<Entry>, usize)>,
    /// The next slice of the first large file.
    next: u32,
    pub(crate) small_files: std::vec::IntoIter<(Batch, Vec<usize>)>,
}

impl Iterator for DigestWork {
    type Item = (Arc<Batch>, Vec<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        let Some((entry, number)) = self.large_files.front() else {
            return self.small_files.next().map(|(batch, owners)| (Arc::new(batch), owners));
        };
        let slices = vec![Slice::whole(0, self.next)];
        let batch = Batch { entries: vec![entry.clone()], slices, again: false };
        let one = (Arc::new(batch), vec![*number]);
        self.next += 1;
        if self.next >= slice_count(entry.len) {
            self.next = 0;
            self.large_files.pop_front();
        }
        Some(one)
    }
}

/// Cuts files into batches of one slice of a large file, or of several small files, each with the number of its file.
pub(crate) fn cut(entries: &[Result<Arc<Entry>>]) -> DigestWork {
    let (mut large_files, mut batches) = (VecDeque::new(), Vec::new());
    let mut last = (Batch::default(), Vec::new());
    let mut bytes = 0;
    for (number, entry) in entries.iter().enumerate() {
        let Ok(entry) = entry else { continue };
        if entry.len > SLICE_LEN {
            large_files.push_back((entry.clone(), number));
            continue;
        }
        if bytes + entry.len > SLICE_LEN || last.1.len() == BATCH_FILES {
            batches.push(std::mem::take(&mut last));
            bytes = 0;
        }
        bytes += entry.len;
        let (batch, owners) = &mut last;
        batch.slices.push(Slice::whole(owners.len() as u32, 0));
        batch.entries.push(entry.clone());
        owners.push(number);
    }
    if !last.1.is_empty() {
        batches.push(last);
    }
    DigestWork { large_files, next: 0, small_files: batches.into_iter() }
}

#[cfg(test)]
mod tests {
    use haul_core::digest::SliceHasher;
    use haul_core::{Buffer, EntryKind, Extent, RelPath, SliceData};

    use super::*;

    /// A file of bytes that equal its number.
    fn file(number: usize, len: u64) -> Result<Arc<Entry>> {
        let path = RelPath::new(number.to_string().as_bytes()).unwrap();
        Ok(Arc::new(Entry::new(path, EntryKind::File, len)))
    }

    fn number(entry: &Entry) -> u8 {
        String::from_utf8(entry.path.as_bytes().to_vec()).unwrap().parse::<usize>().unwrap() as u8
    }

    fn failure(kind: ErrorKind) -> Error {
        Error::new(kind, Side::Source, "read", "test")
    }

    /// Reads a batch; file 3 cannot be read.
    fn read(batch: &Arc<Batch>) -> Result<BatchData> {
        assert!(batch.slices.len() <= BATCH_FILES);
        let slices = batch.iter().map(|(entry, slice)| {
            if number(entry) == 3 {
                return Err(failure(ErrorKind::PermissionDenied));
            }
            let len = slice.len_in(entry.len);
            let mut hasher = SliceHasher::new(entry.len, slice.start());
            hasher.update(&vec![number(entry); len as usize]);
            Ok(SliceData { extents: vec![Extent::data(0, len as u32)], value: hasher.finish() })
        });
        let slices = slices.collect();
        Ok(BatchData { batch: batch.clone(), slices, content: Buffer::default(), at_hand: true })
    }

    #[test]
    fn every_file_gets_its_digest_or_its_error() {
        let mut files: Vec<_> = (0..200).map(|number| file(number, 5)).collect();
        files[0] = file(0, 2 * SLICE_LEN + 7);
        files[1] = Err(failure(ErrorKind::NotFound));
        files.extend((0..BATCH_FILES).map(|_| file(7, 0)));
        let digests = digests(files, 3, read).unwrap();
        assert_eq!(digests[0], Ok(Digest::of(&vec![0; 2 * SLICE_LEN as usize + 7])));
        assert_eq!(digests[1].as_ref().unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(digests[3].as_ref().unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert_eq!(digests[199], Ok(Digest::of(&[199; 5])));
        assert_eq!(digests.last().unwrap(), &Ok(Digest::of(&[])));
    }

    #[test]
    fn a_batch_that_fails_ends_all() {
        let failed = |_: &Arc<Batch>| Err(failure(ErrorKind::Io));
        assert_eq!(digests(vec![file(1, 1)], 1, failed).unwrap_err().kind(), ErrorKind::Io);
    }
}
