//! The digest of a whole file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use haul_core::digest::{SliceHasher, slice_count, slice_len};
use haul_core::{ChainingValue, Digest, Error, FileTree, Ops, RelPath, Result, SLICE_LEN, Sha256};
use haul_ends::hashed::HashedBytes;
use haul_ends::sha256::Sha256Hasher;
use haul_pages::{FilePages, PageCheck};

use super::file::{STEP, changed, open};
use super::page_cache::{self, CachedFile};
use crate::path::root::Root;

/// Hashes the current content of the file at `path`.
///
/// # Errors
/// `SourceChanged` if the file changes meanwhile, or is no regular file.
pub(crate) fn of_path(
    root: &Root,
    path: &RelPath,
    check: Option<&Arc<PageCheck>>,
    hashed: &HashedBytes,
) -> Result<Digest> {
    unchanged(root, path, check, |opened, len| of_opened(&root.ops, opened, len, hashed))
}

/// The same with the SHA-256 of the file.
///
/// # Errors
/// As [`of_path`].
pub(crate) fn sha256_of_path(
    root: &Root,
    path: &RelPath,
    check: Option<&Arc<PageCheck>>,
    hashed: &HashedBytes,
) -> Result<Sha256> {
    unchanged(root, path, check, |opened, len| sha256_of_opened(&root.ops, opened, len, hashed))
}

/// Hashes a file with `hash`, which gets the open file and its length. The file must not change meanwhile.
fn unchanged<T>(
    root: &Root,
    path: &RelPath,
    check: Option<&Arc<PageCheck>>,
    hash: impl FnOnce(&CachedFile, u64) -> std::io::Result<T>,
) -> Result<T> {
    let file = open(root, path)?;
    let failed = |e: &std::io::Error| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => changed(root, path),
        _ => Error::io(root.side(), "read", e).on(root.shown(path)),
    };
    let before = file.metadata().map_err(|e| failed(&e))?;
    if !before.is_file() {
        return Err(changed(root, path));
    }
    let opened = CachedFile::new(file, before.len()).checked(root, path, before.len(), check)?;
    let digest = hash(&opened, before.len()).map_err(|e| failed(&e))?;
    opened.settle_pages(opened.pages.as_ref().is_none_or(FilePages::are_good))?;
    root.ops.some(2);
    let after = opened.file.metadata().map_err(|e| failed(&e))?;
    let same = before.len() == after.len() && before.modified().ok() == after.modified().ok();
    if same { Ok(digest) } else { Err(changed(root, path)) }
}

/// Hashes `len` bytes of an open file.
pub(crate) fn of_opened(
    ops: &Ops,
    opened: &CachedFile,
    len: u64,
    hashed: &HashedBytes,
) -> std::io::Result<Digest> {
    let mut tree = FileTree::new(len);
    each_slice(opened, len, |index, buffer| {
        let mut hasher = SliceHasher::new(len, u64::from(index) * SLICE_LEN);
        each_piece(
            (len, index),
            buffer,
            |bytes, at| opened.read(ops, bytes, at),
            |piece| {
                hasher.update(piece);
                hashed.add(piece.len() as u64);
            },
        )?;
        tree.set(index, hasher.finish());
        Ok(())
    })?;
    tree.digest().ok_or_else(|| std::io::Error::other("a slice is missing"))
}

/// Hashes `len` bytes of an open file from its start.
fn sha256_of_opened(
    ops: &Ops,
    opened: &CachedFile,
    len: u64,
    hashed: &HashedBytes,
) -> std::io::Result<Sha256> {
    let mut hasher = Sha256Hasher::new(len);
    each_slice(opened, len, |index, buffer| {
        each_piece(
            (len, index),
            buffer,
            |bytes, at| opened.read(ops, bytes, at),
            |piece| {
                hasher.update(piece);
                hashed.add(piece.len() as u64);
            },
        )
    })?;
    hasher.finish().ok_or_else(|| std::io::Error::other("a slice is missing"))
}

/// Calls `read` with the number of each slice and a buffer. Content that was not in the page cache leaves it again.
fn each_slice(
    opened: &CachedFile,
    len: u64,
    mut read: impl FnMut(u32, &mut [u8]) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; STEP.min(usize::try_from(len).unwrap_or(STEP))];
    for index in 0..slice_count(len) {
        let (start, slice) = (u64::from(index) * SLICE_LEN, slice_len(len, index));
        let drop_after = opened.is_uncached(start, slice);
        read(index, &mut buffer)?;
        if drop_after {
            page_cache::release(&opened.file, start, slice);
        }
    }
    Ok(())
}

/// Hashes one slice of a file of `len` bytes through `buffer`, which must not be empty.
pub(crate) fn of_slice(
    ops: &Ops,
    file: &File,
    len: u64,
    index: u32,
    buffer: &mut [u8],
) -> std::io::Result<ChainingValue> {
    let mut hasher = SliceHasher::new(len, u64::from(index) * SLICE_LEN);
    let read = |bytes: &mut [u8], at| {
        ops.one();
        file.read_exact_at(bytes, at)
    };
    each_piece((len, index), buffer, read, |piece| hasher.update(piece))?;
    Ok(hasher.finish())
}

/// Reads one slice of a file of `len` bytes with `read` through `buffer`, in order.
fn each_piece(
    (len, index): (u64, u32),
    buffer: &mut [u8],
    mut read: impl FnMut(&mut [u8], u64) -> std::io::Result<()>,
    mut take: impl FnMut(&[u8]),
) -> std::io::Result<()> {
    let (start, slice) = (u64::from(index) * SLICE_LEN, slice_len(len, index));
    let mut at = 0;
    while at < slice {
        let step = (slice - at).min(buffer.len() as u64) as usize;
        read(&mut buffer[..step], start + at)?;
        take(&buffer[..step]);
        at += step as u64;
    }
    Ok(())
}
