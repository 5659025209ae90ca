//! Digests of whole files, by reading them in batches on several threads.

use haul_core::sync::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

use haul_core::digest::slice_count;
use haul_core::{
    Batch, BatchData, Digest, Entry, Error, ErrorKind, FileTree, Result, SLICE_LEN, Side, Slice,
};
use haul_threads::together;

/// Files in one batch at most.
const BUNDLE: usize = 256;

/// The digests of files, or why one is not to be had; `threads` batches are read at a time.
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

/// What is left to be read. The slices of a large file are counted off one by one, as a server may claim any length for it.
struct Work {
    large_files: VecDeque<(Arc<Entry>, usize)>,
    /// The next slice of the first large file.
    next: u32,
    bundles: std::vec::IntoIter<(Batch, Vec<usize>)>,
}

impl Iterator for Work {
    type Item = (Arc<Batch>, Vec<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        let Some((entry, number)) = self.large_files.front() else {
            return self.bundles.next().map(|(batch, owners)| (Arc::new(batch), owners));
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

/// Cuts files into batches: a slice of a large file, or several small ones. With each slice goes the number of its file.
fn cut(entries: &[Result<Arc<Entry>>]) -> Work {
    let (mut large_files, mut bundles) = (VecDeque::new(), Vec::new());
    let mut bundle = (Batch::default(), Vec::new());
    let mut bytes = 0;
    for (number, entry) in entries.iter().enumerate() {
        let Ok(entry) = entry else { continue };
        if entry.len > SLICE_LEN {
            large_files.push_back((entry.clone(), number));
            continue;
        }
        if bytes + entry.len > SLICE_LEN || bundle.1.len() == BUNDLE {
            bundles.push(std::mem::take(&mut bundle));
            bytes = 0;
        }
        bytes += entry.len;
        let (batch, owners) = &mut bundle;
        batch.slices.push(Slice::whole(owners.len() as u32, 0));
        batch.entries.push(entry.clone());
        owners.push(number);
    }
    if !bundle.1.is_empty() {
        bundles.push(bundle);
    }
    Work { large_files, next: 0, bundles: bundles.into_iter() }
}
