//! Rules that a decoded message must obey before haul acts on it.

use std::ops::Range;
use std::sync::Arc;

use haul_core::buffer::BUFFER_LEN;
use haul_core::digest::{MAX_FILE_LEN, part_count, slice_count};
use haul_core::page_checks::{MAX_BAD_PAGES, MAX_UNCHECKED};
use haul_core::probe::{MAX_SAMPLES, ProbeTask};
use haul_core::program::MAX_SAID;
use haul_core::slice::MAX_BATCH_SLICES;
use haul_core::source::ScanBatch;
use haul_core::{Batch, Entry, Failure, Packing, PageHashes, Result, SLICE_LEN, Slice, SliceData};

use crate::error::FrameError;
use crate::frame::MAX_PAYLOAD;
use crate::limits::{MAX_COMPARED, MAX_CONNECTIONS, MAX_NOTES, MAX_STUCK};
use crate::message::{Request, Response};

/// The most entries and errors in one part of a scan.
pub const PART_LEN: usize = 2000;
/// The most weight of a part in bytes, without its last entry.
pub const PART_WEIGHT: usize = 1024 * 1024;

/// Checks a request against the length of its payload.
///
/// # Errors
/// [`FrameError::Rule`] with the rule that is broken.
pub fn request(request: &Request, payload_len: usize) -> std::result::Result<(), FrameError> {
    match request {
        Request::Write { batch, slices, packing, proof_follows, .. } => {
            self::batch(batch)?;
            following_proof(*proof_follows, slices, *packing, payload_len)?;
            contents(batch, slices, plain_len(*packing, payload_len)?)
        }
        Request::Read { batch, pages: None, .. } if payload_len == 0 && is_slice_of_growing(batch) => {
            self::batch(batch)
        }
        Request::Read { batch, pages, .. } | Request::Pull { batch, pages, .. } if payload_len == 0 => {
            self::batch(batch)?;
            has_ended(batch)?;
            let Some(pages) = pages else { return Ok(()) };
            self::pages(pages)?;
            if is_slice_of_large(batch) {
                Ok(())
            } else {
                Err(FrameError::Rule("pages of an entry that has none"))
            }
        }
        Request::Fetch { batch, .. } if payload_len == 0 => {
            self::batch(batch)?;
            has_ended(batch)
        }
        Request::PageHashes { slices, .. } if slices.len() > MAX_COMPARED as usize => {
            Err(FrameError::Rule("too many slices to be compared"))
        }
        Request::Swallow => Ok(()),
        Request::Produce { bytes } if *bytes as usize > MAX_PAYLOAD => {
            Err(FrameError::Rule("more bytes than a frame holds"))
        }
        Request::RunProducer { program, .. } | Request::RunConsumer { program, .. }
            if program.words.is_empty() =>
        {
            Err(FrameError::Rule("a program without a name"))
        }
        Request::Probe(ProbeTask::Read { samples, .. }) if samples.len() > MAX_SAMPLES => {
            Err(FrameError::Rule("too many samples"))
        }
        _ if payload_len == 0 => Ok(()),
        _ => Err(FrameError::Rule("content that nothing was said of")),
    }
}

/// Checks an answer against the payload that came with it. `asked` is the batch, where content was asked for.
///
/// # Errors
/// Says which rule is broken.
pub fn response(
    response: &Response,
    asked: Option<&Batch>,
    payload_len: usize,
) -> std::result::Result<(), FrameError> {
    match (response, asked) {
        (Response::Read { slices, packing, ended, proof_follows }, Some(batch)) => {
            following_proof(*proof_follows, slices, *packing, payload_len)?;
            let len = plain_len(*packing, payload_len)?;
            match ended {
                None => contents(batch, slices, len),
                Some(at) if is_slice_of_growing(batch) && !proof_follows && *at <= MAX_FILE_LEN => {
                    contents(&batch.ended_at(*at), slices, len)
                }
                Some(_) => Err(FrameError::Rule("the end of a file that does not grow, or is too long")),
            }
        }
        (Response::Said(said), None) if said.text.len() > MAX_SAID => {
            Err(FrameError::Rule("more text than one answer has"))
        }
        (Response::PageHashes(all), None) if payload_len == 0 => {
            if all.len() > MAX_COMPARED as usize {
                return Err(FrameError::Rule("pages of too many slices"));
            }
            all.iter().try_for_each(pages)
        }
        (Response::Scan(part), None) if payload_len == 0 => scan_part(&part.found),
        (Response::Finish(report), None) if report.notes.len() > MAX_NOTES => {
            Err(FrameError::Rule("too many notes"))
        }
        (Response::PageReport(Some(report)), None)
            if report.named.len() > MAX_BAD_PAGES || report.unchecked.len() > MAX_UNCHECKED =>
        {
            Err(FrameError::Rule("more bad pages than a source names"))
        }
        // A batch is read once, into one buffer.
        (Response::Fetched { wire_bytes, matched_bytes, streams, .. }, None)
            if (*wire_bytes).max(*matched_bytes) > MAX_PAYLOAD as u64 || *streams > MAX_CONNECTIONS =>
        {
            Err(FrameError::Rule("more content than a batch has, or more connections than there can be"))
        }
        (Response::HungOperation { hung, .. }, None) if hung.len() > MAX_STUCK => {
            Err(FrameError::Rule("too many operations"))
        }
        // Memory for it was set aside only where it was asked for.
        (Response::Produced, None) => Ok(()),
        _ if payload_len == 0 => Ok(()),
        _ => Err(FrameError::Rule("content that was not asked for")),
    }
}

/// Checks that a batch describes slices that exist, and not too many.
///
/// # Errors
/// Says which rule is broken.
pub fn batch(batch: &Batch) -> std::result::Result<(), FrameError> {
    if batch.slices.len() > MAX_BATCH_SLICES || batch.entries.len() > MAX_BATCH_SLICES {
        return Err(FrameError::Rule("too many slices in a batch"));
    }
    for slice in &batch.slices {
        let Some(entry) = batch.entries.get(slice.entry as usize) else {
            return Err(FrameError::Rule("a slice of no entry"));
        };
        if !entry.is_file() {
            return Err(FrameError::Rule("a slice of an entry that is no file"));
        }
        if slice.index >= slice_count(entry.len) {
            return Err(FrameError::Rule("a slice after the end of its file"));
        }
        if entry.len > MAX_FILE_LEN && !entry.is_growing() {
            return Err(FrameError::Rule("a slice of a file that is too long"));
        }
        let has_parts = entry.len > SLICE_LEN && batch.slices.len() == 1;
        if slice.part.is_some_and(|part| !has_parts || part >= part_count(entry.len, slice.index)) {
            return Err(FrameError::Rule("a part that the slice does not have"));
        }
    }
    Ok(())
}

/// Whether a batch is one slice of a growing stream, the output of a program.
fn is_slice_of_growing(batch: &Batch) -> bool {
    batch.slices.len() == 1 && batch.entries.len() == 1 && batch.entries[0].is_growing()
}

/// Checks that a batch has no stream that is growing.
fn has_ended(batch: &Batch) -> std::result::Result<(), FrameError> {
    if batch.entries.iter().any(|entry| entry.is_growing()) {
        return Err(FrameError::Rule("a slice of a stream that is to be read"));
    }
    Ok(())
}

/// Checks that a part of a scan is no larger than ours are: an end makes a part as soon as it is full, so only the last
/// entry can be heavy.
fn scan_part(found: &ScanBatch) -> std::result::Result<(), FrameError> {
    let entries = found.entries.iter().rev().skip(1).map(Entry::weight).sum::<usize>();
    let words = |failure: &Failure| failure.path.as_bytes().len() + failure.error.cause().len();
    let errors = found.errors.iter().rev().skip(1).map(words).sum::<usize>();
    let is_large = found.entries.len() > PART_LEN
        || found.errors.len() > PART_LEN
        || entries > PART_WEIGHT
        || errors > PART_WEIGHT;
    if is_large { Err(FrameError::Rule("more in a part of a scan than one may hold")) } else { Ok(()) }
}

/// Checks the slices of an entry that a sink claims to have: ranges that ascend and do not overlap.
///
/// # Errors
/// Says which rule is broken.
pub fn have(entry: &Entry, have: &[Range<u32>]) -> std::result::Result<(), FrameError> {
    let mut end = 0;
    for range in have {
        if range.start < end || range.end <= range.start {
            return Err(FrameError::Rule("ranges of slices that do not ascend"));
        }
        end = range.end;
    }
    let count = if entry.is_file() { slice_count(entry.len) } else { 0 };
    if end > count { Err(FrameError::Rule("slices after the end of a file")) } else { Ok(()) }
}

/// Whether it is one whole slice of a file that has several.
fn is_slice_of_large(batch: &Batch) -> bool {
    let is_one = |(entry, slice): (&Arc<Entry>, Slice)| entry.len > SLICE_LEN && slice.part.is_none();
    batch.slices.len() == 1 && batch.get(0).is_some_and(is_one)
}

fn pages(pages: &PageHashes) -> std::result::Result<(), FrameError> {
    if pages.is_sound() { Ok(()) } else { Err(FrameError::Rule("more pages than a slice has")) }
}

/// Checks that a proof follows nothing but the plain content of one slice.
fn following_proof(
    proof_follows: bool,
    slices: &[Result<SliceData>],
    packing: Option<Packing>,
    payload_len: usize,
) -> std::result::Result<(), FrameError> {
    let is_one_slice = payload_len > 0 && packing.is_none() && matches!(slices, [Ok(_)]);
    if proof_follows && !is_one_slice {
        return Err(FrameError::Rule(
            "a proof that follows something else than the plain content of one slice",
        ));
    }
    Ok(())
}

/// Bytes of content that a payload stands for: no more than a buffer holds, and more than it has itself.
fn plain_len(packing: Option<Packing>, payload_len: usize) -> std::result::Result<usize, FrameError> {
    let Some(packing) = packing else { return Ok(payload_len) };
    let plain_len = packing.plain_len as usize;
    if payload_len == 0 || payload_len >= plain_len || plain_len > BUFFER_LEN {
        return Err(FrameError::Rule("packed content that is not shorter, or stands for too much"));
    }
    Ok(plain_len)
}

/// Checks the data that was read of a batch: one item for each slice, extents ascending and within the slice, and as
/// many bytes as the content has.
fn contents(
    batch: &Batch,
    slices: &[Result<SliceData>],
    content_len: usize,
) -> std::result::Result<(), FrameError> {
    if slices.len() != batch.slices.len() {
        return Err(FrameError::Rule("not one result for each slice"));
    }
    let mut total = 0;
    for ((entry, slice), data) in batch.iter().zip(slices) {
        let Ok(data) = data else { continue };
        let len = slice.len_in(entry.len);
        let mut end = 0;
        for extent in &data.extents {
            let start = u64::from(extent.start);
            if start < end {
                return Err(FrameError::Rule("extents that do not ascend"));
            }
            end = start + u64::from(extent.len);
            if !extent.same {
                total += u64::from(extent.len);
            } else if !is_slice_of_large(batch) {
                return Err(FrameError::Rule("a slice that cannot be the same"));
            }
        }
        if end > len {
            return Err(FrameError::Rule("an extent after the end of its slice"));
        }
    }
    if total == content_len as u64 { Ok(()) } else { Err(FrameError::Rule("extents and content differ")) }
}
