//! SHA-256 of whole files. It has no tree: the slices of a file are hashed in order, several files at a time.

use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use haul_core::digest::{SliceHasher, slice_count};
use haul_core::sync::Mutex;
use haul_core::{
    Batch, BatchData, Entry, Error, ErrorKind, FileTree, Result, SLICE_LEN, Sha256, Side, Slice, SliceData,
};
use haul_threads::together;

use crate::digests::{DigestWork, cut};

/// Hashes one file from its start, by SHA-256 and BLAKE3.
pub struct Sha256Hasher {
    len: u64,
    at: u64,
    sha256: Context,
    slice: SliceHasher,
    tree: FileTree,
}

impl Sha256Hasher {
    /// Begins a file of `len` bytes.
    #[must_use]
    pub fn new(len: u64) -> Self {
        let (slice, tree) = (SliceHasher::new(len, 0), FileTree::new(len));
        Self { len, at: 0, sha256: Context::new(&SHA256), slice, tree }
    }

    /// Adds the next bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        self.sha256.update(bytes);
        while !bytes.is_empty() {
            let left = (SLICE_LEN - self.at % SLICE_LEN).min(bytes.len() as u64) as usize;
            let (now, later) = bytes.split_at(left);
            self.slice.update(now);
            self.at += left as u64;
            if self.at.is_multiple_of(SLICE_LEN) && self.at < self.len {
                self.end_slice(self.at - SLICE_LEN);
                self.slice = SliceHasher::new(self.len, self.at);
            }
            bytes = later;
        }
    }

    /// Adds a hole: the next `len` bytes are zero.
    pub fn update_zeros(&mut self, mut len: u64) {
        static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
        while len > 0 {
            let now = len.min(ZEROS.len() as u64);
            self.update(&ZEROS[..now as usize]);
            len -= now;
        }
    }

    fn end_slice(&mut self, start: u64) {
        self.tree.set((start / SLICE_LEN) as u32, self.slice.finish());
    }

    /// The digests; `None` if it got fewer or more bytes than the file has.
    #[must_use]
    pub fn finish(mut self) -> Option<Sha256> {
        if self.at != self.len {
            return None;
        }
        self.end_slice(self.len.saturating_sub(1) / SLICE_LEN * SLICE_LEN);
        let mut sha256 = [0; 32];
        sha256.copy_from_slice(self.sha256.finish().as_ref());
        Some(Sha256 { sha256, blake3: self.tree.digest()? })
    }
}

/// The digests of files, or their errors. Up to `threads` files are read with `read` at a time.
///
/// # Errors
/// The first error of `read`, or `Io` if no thread can be started.
pub fn sha256(
    entries: Vec<Result<Arc<Entry>>>,
    threads: u32,
    read: impl Fn(&Arc<Batch>) -> Result<BatchData> + Sync,
) -> Result<Vec<Result<Sha256>>> {
    let DigestWork { large_files, small_files, .. } = cut(&entries);
    let missing = || Error::new(ErrorKind::Io, Side::Local, "hash", "a slice is missing");
    let outcomes = entries.into_iter().map(|entry| entry.and_then(|_| Err(missing())));
    let outcomes: Vec<Mutex<Result<Sha256>>> = outcomes.map(Mutex::new).collect();
    let (large_files, small_files) = (Mutex::new(large_files), Mutex::new(small_files));
    let work = || -> Result<()> {
        loop {
            let large = large_files.lock().pop_front();
            if let Some((entry, number)) = large {
                *outcomes[number].lock() = of_large(&entry, &read)?;
                continue;
            }
            let small = small_files.lock().next();
            let Some((batch, owners)) = small else { return Ok(()) };
            let BatchData { batch, slices, content, .. } = read(&Arc::new(batch))?;
            let mut rest = content.bytes();
            for ((owner, (entry, slice)), data) in owners.iter().zip(batch.iter()).zip(slices) {
                let mut hasher = Sha256Hasher::new(entry.len);
                let hashed = data.map(|data| feed(&mut hasher, &data, slice.len_in(entry.len), &mut rest));
                *outcomes[*owner].lock() = hashed.and_then(|()| hasher.finish().ok_or_else(missing));
            }
        }
    };
    together(threads as usize, "hash", work)?.into_iter().collect::<Result<()>>()?;
    Ok(outcomes.into_iter().map(Mutex::into_inner).collect())
}

/// Reads a large file slice by slice.
fn of_large(entry: &Arc<Entry>, read: &impl Fn(&Arc<Batch>) -> Result<BatchData>) -> Result<Result<Sha256>> {
    let mut hasher = Sha256Hasher::new(entry.len);
    for index in 0..slice_count(entry.len) {
        let slice = Slice::whole(0, index);
        let batch = Arc::new(Batch { entries: vec![Arc::clone(entry)], slices: vec![slice], again: false });
        let BatchData { slices, content, .. } = read(&batch)?;
        match slices.into_iter().next() {
            Some(Ok(data)) => feed(&mut hasher, &data, slice.len_in(entry.len), &mut content.bytes()),
            Some(Err(error)) => return Ok(Err(error)),
            None => break,
        }
    }
    let missing = || Error::new(ErrorKind::Io, Side::Local, "hash", "a slice is missing");
    Ok(hasher.finish().ok_or_else(missing))
}

/// Adds a slice of `len` bytes, whose content is at the start of `rest`.
fn feed(hasher: &mut Sha256Hasher, data: &SliceData, len: u64, rest: &mut &[u8]) {
    let mut at = 0;
    for extent in data.extents.iter().filter(|extent| !extent.same) {
        hasher.update_zeros(u64::from(extent.start).saturating_sub(at));
        let (now, later) = rest.split_at((extent.len as usize).min(rest.len()));
        hasher.update(now);
        *rest = later;
        at = u64::from(extent.start) + u64::from(extent.len);
    }
    hasher.update_zeros(len.saturating_sub(at));
}
