//! Large files: staged slice by slice, over any connection, with a journal beside the staged file.
//!
//! A slice is opened, written through to the disk of the server and closed in one frame; then it is recorded in the
//! journal. A flush of another handle would not do: Linux tells an error of the disk to one handle only. Nothing but the first slices of a run makes the staged file: a slice that is sent again after its file got
//! its name finds no staged file, and makes none.

use std::ops::Range;

use haul_core::digest::slice_count;
use haul_core::journal::{self, HEADER_LEN, RECORD_LEN};
use haul_core::{ChainingValue, Error, ErrorKind, Outcome, Result, SLICE_LEN, Slice, SliceData};

use super::attrs::{Attrs, filetime};
use haul_ends::large_file::ServerJournal;
use haul_ends::offers::PendingOffer;

use super::large_file::{LargeFile, large_file};
use super::read;
use super::remove::remove_at;
use super::reply::Fault;
use super::small::{check_write, gave_back_other};
use super::state::SmbSink;
use super::step::{ChainStep, OpenedKind, WRITE};

/// Finds the staged files and journals that interrupted runs left of these files, and returns the slices to keep, as
/// ranges. Removes staged files and journals without a slice to keep.
pub(super) fn prepare(
    sink: &SmbSink,
    files: &[&PendingOffer<'_, Attrs>],
) -> Result<Vec<Result<Vec<Range<u32>>>>> {
    if !sink.options.dry_run {
        let slices = files.iter().map(|case| slice_count(case.offer.entry.len) as usize).sum();
        sink.tree.smb.server.expect(slices)?;
    }
    sink.tree.smb.all(files, async |case: &&PendingOffer<'_, Attrs>| {
        let (entry, replaces) = (&case.offer.entry, case.now.is_some_and(|now| now.is_file()));
        if let Some(large) = sink.large_files.of(entry) {
            return Ok(large.resumable());
        }
        let empty = large_file(&sink.tree, entry, replaces, &[])?;
        let failed = |fault| sink.tree.error("look at the staged file of", &entry.path, fault);
        // haul does not compare the slices of an earlier stream with this one.
        let known = if entry.is_stream() { Vec::new() } else { left(sink, &empty).await.map_err(failed)? };
        if sink.options.dry_run {
            return Ok(Vec::new());
        }
        sink.directories.touch(&entry.path);
        if known.is_empty() {
            for remote in [&empty.part, &empty.journal] {
                let _missing = remove_at(&sink.tree, remote).await;
            }
        }
        let large = large_file(&sink.tree, entry, replaces, &known)?;
        let have = large.resumable();
        sink.large_files.put(large);
        Ok(have)
    })
}

/// The slices of the staged file of an interrupted run.
async fn left(sink: &SmbSink, large: &LargeFile) -> Result<Vec<(u32, ChainingValue)>, Fault> {
    let part = match sink.tree.stat_at(&large.part).await {
        Ok(part) if part.is_file() && part.len <= large.entry().len => part,
        Err(Fault::Failed(error)) => return Err(error.into()),
        _ => return Ok(Vec::new()),
    };
    // An honest journal holds each slice a few times at most.
    let most = HEADER_LEN as u64 + (part.len / SLICE_LEN + 1) * 4 * RECORD_LEN as u64;
    let most = most.min(sink.tree.smb.server.most() as u64) as u32;
    let bytes = match read::content(&sink.tree, &large.journal, most).await {
        Ok(bytes) => bytes,
        Err(Fault::Failed(error)) => return Err(error.into()),
        Err(Fault::Status(_)) => return Ok(Vec::new()),
    };
    let Some((header, known)) = journal::decode(&bytes) else { return Ok(Vec::new()) };
    if header != large.header(header.synced) {
        return Ok(Vec::new());
    }
    // Slices that were not synced may be lost after a crash of the server.
    if header.synced && !sink.options.verify_disk {
        return Ok(known);
    }
    for (index, value) in &known {
        if read::staged(&sink.tree, &large.part, large.entry().len, *index).await? != Some(*value) {
            // The journal would still name it.
            return Ok(Vec::new());
        }
    }
    Ok(known)
}

/// Writes a slice. The last slice also renames the file into place.
pub(super) async fn write(
    sink: &SmbSink,
    large: &LargeFile,
    slice: Slice,
    data: &SliceData,
    content: &[u8],
) -> Result<Outcome> {
    let entry = large.entry();
    if let Some(digest) = large.ended.get() {
        return Ok(Outcome::Committed(Some(*digest)));
    }
    match stage(sink, large, slice, data, content).await {
        Err(fault) if fault.is_missing() && large.lock().made => return settle_missing(sink, large).await,
        staged => staged.map_err(|fault| sink.tree.error("write", &entry.path, fault))?,
    }
    let digest = {
        let mut progress = large.lock();
        progress.proof.set(slice.index, data.value);
        progress.records.push((slice.index, data.value));
        match progress.proof.digest() {
            Some(_) if progress.finishing => return Ok(Outcome::Stored),
            digest => {
                progress.finishing = digest.is_some();
                digest
            }
        }
    };
    let Some(digest) = digest else {
        record(sink, large).await;
        return Ok(Outcome::Stored);
    };
    match sink.publish(&large.part, entry, large.making).await {
        Ok(()) => {}
        Err(fault) if fault.is_missing() => return settle_missing(sink, large).await,
        Err(fault) => {
            large.lock().finishing = false;
            let error = sink.tree.error("rename into place", &entry.path, fault);
            if error.kind() == ErrorKind::Unsupported {
                // It never gets this name.
                sink.large_files.take(&entry.path);
                for remote in [&large.part, &large.journal] {
                    let _missing = remove_at(&sink.tree, remote).await;
                }
            }
            return Err(error);
        }
    }
    Ok(end(sink, large, digest).await)
}

/// The file has its name: removes the journal.
async fn end(sink: &SmbSink, large: &LargeFile, digest: haul_core::Digest) -> Outcome {
    let _ = large.ended.set(digest);
    sink.large_files.take(&large.entry().path);
    // A thread that writes the journal removes it.
    if !large.lock().is_journal_busy() {
        let _missing = remove_at(&sink.tree, &large.journal).await;
    }
    Outcome::Committed(Some(digest))
}

async fn stage(
    sink: &SmbSink,
    large: &LargeFile,
    slice: Slice,
    data: &SliceData,
    content: &[u8],
) -> Result<(), Fault> {
    let entry = large.entry();
    let open = || match large.lock().made {
        true => ChainStep::open(&large.part, OpenedKind::File, WRITE),
        false => ChainStep::open_or_make(&large.part, OpenedKind::File, WRITE),
    };
    let (start, len) = (slice.start(), slice.len_in(entry.len));
    let mut used = 0;
    for extent in &data.extents {
        // The lengths were checked with the proof.
        let bytes = content.get(used..used + extent.len as usize).unwrap_or_default();
        used += extent.len as usize;
        let mut offset = start + u64::from(extent.start);
        for piece in bytes.chunks(sink.tree.smb.server.most()) {
            let write = ChainStep::write(offset, piece, sink.options.durable);
            let replies = sink.tree.smb.server.run_large(&[open(), write, ChainStep::close()]).await?;
            replies.opened()?;
            large.lock().made = true;
            check_write(&replies, 1, piece.len(), 1)?;
            replies.all_ok()?;
            offset += piece.len() as u64;
        }
    }
    let written = data.extents.last().map_or(0, |extent| u64::from(extent.start) + u64::from(extent.len));
    if written < len {
        let replies = sink.tree.run(&[open(), ChainStep::set_len(entry.len), ChainStep::close()]).await?;
        replies.all_ok()?;
        large.lock().made = true;
    }
    if sink.options.verify_disk {
        let there = read::staged(&sink.tree, &large.part, entry.len, slice.index).await?;
        if there != Some(data.value) {
            return Err(gave_back_other(sink, entry).into());
        }
    }
    Ok(())
}

/// Appends slices that are durable to the journal. An error here costs only time of a later run.
async fn record(sink: &SmbSink, large: &LargeFile) {
    if large.entry().is_stream() {
        return;
    }
    let header = large.header(sink.options.durable);
    loop {
        let (at, bytes, count) = {
            let mut progress = large.lock();
            let (from, count) = (progress.recorded, progress.records.len());
            if progress.is_journal_busy() || progress.finishing || from == count {
                return;
            }
            progress.journal = ServerJournal::Busy;
            let mut bytes = if from == 0 { header.encode().to_vec() } else { Vec::new() };
            for (index, value) in &progress.records[from..] {
                bytes.extend(journal::encode_record(header.seed(), *index, value));
            }
            (if from == 0 { 0 } else { HEADER_LEN + from * RECORD_LEN }, bytes, count)
        };
        let open = ChainStep::open_or_make(&large.journal, OpenedKind::File, WRITE);
        let chain = [open, ChainStep::write(at as u64, &bytes, sink.options.durable), ChainStep::close()];
        let written = sink.tree.run(&chain).await.is_ok_and(|replies| replies.all_ok().is_ok());
        if has_ended(large, written, count) {
            let _missing = remove_at(&sink.tree, &large.journal).await;
        }
        if !written {
            return;
        }
    }
}

/// Takes the end of a write to the journal. Returns whether the file was renamed into place meanwhile.
fn has_ended(large: &LargeFile, written: bool, count: usize) -> bool {
    let mut progress = large.lock();
    progress.journal = ServerJournal::Closed;
    if written {
        progress.recorded = count;
    }
    progress.finishing
}

/// The staged file is gone: it was renamed on a connection that was lost, or another process removed it.
async fn settle_missing(sink: &SmbSink, large: &LargeFile) -> Result<Outcome> {
    let entry = large.entry();
    let there = sink.tree.find(&entry.path).await;
    let there = there.map_err(|fault| sink.tree.error("look at", &entry.path, fault))?;
    let time = filetime(entry.mtime);
    let has_time = |modified| !sink.options.preserve.times || Some(modified) == time;
    let is_renamed = there.is_some_and(|now| now.len == entry.len && has_time(now.modified));
    let digest = large.lock().proof.digest();
    if let Some(digest) = digest.filter(|_| is_renamed) {
        return Ok(end(sink, large, digest).await);
    }
    sink.large_files.take(&entry.path);
    let error: Error = sink.tree.fault(ErrorKind::Busy, "write", &entry.path, "its staged file is gone");
    Err(error.with_hint("is another haul writing it? Run the same command again"))
}
