//! Copies that the store makes itself: objects within a bucket, further names of a file, and an object onto itself with
//! other metadata.

use std::sync::Arc;

use haul_core::{Batch, Digest, Entry, ErrorKind, Outcome, Result, SLICE_LEN, WriteDone};
use haul_object::client::{joined_crc64, run_metadata};
use haul_object::{Object, PutOptions};
use haul_streams::encoding::Encoding;
use haul_streams::{sidecar, uploads};

use super::large_copies::LargeCopy;
use super::metadata;
use super::sink_state::SinkState;
use super::tree::Tree;

/// The size of the parts by which an object is copied that exceeds one request.
pub(super) const RANGE: u64 = 1 << 30;

/// Copies the objects of a batch from `from`, which is in the same bucket.
pub(super) fn fetch(sink: &SinkState, from: &Tree, batch: &Arc<Batch>, done: WriteDone) {
    if let Some((entry, _)) = batch.get(0)
        && entry.len > SLICE_LEN
        && batch.slices.len() == 1
    {
        return fetch_large(sink, from, entry, done);
    }
    let items: Vec<_> = batch.iter().collect();
    done(sink.send.each(&items, |(entry, _)| copy(sink, from, entry).map(Outcome::Committed)));
}

/// A large file is asked for slice by slice; the first request copies all of it.
fn fetch_large(sink: &SinkState, from: &Tree, entry: &Entry, done: WriteDone) {
    let copies = || sink.copies.0.lock();
    let committed = |digest: &Option<Digest>| Outcome::Committed(*digest);
    let mine = {
        let mut copies = copies();
        match copies.get_mut(&entry.path) {
            None => {
                copies.insert(entry.path.clone(), LargeCopy::InFlight(Vec::new()));
                done
            }
            Some(LargeCopy::InFlight(waiting)) => return waiting.push(done),
            Some(LargeCopy::Done(digest)) => {
                let outcome = committed(digest);
                drop(copies);
                return done(vec![Ok(outcome)]);
            }
        }
    };
    let copied = copy(sink, from, entry);
    let before = match &copied {
        Ok(digest) => copies().insert(entry.path.clone(), LargeCopy::Done(*digest)),
        Err(_) => copies().remove(&entry.path),
    };
    mine(vec![copied.clone().map(|digest| committed(&digest))]);
    if let Some(LargeCopy::InFlight(waiting)) = before {
        waiting.into_iter().for_each(|done| done(vec![copied.clone().map(|digest| committed(&digest))]));
    }
}

/// Copies one object if it still matches `entry`. Returns its recorded digest.
fn copy(sink: &SinkState, from: &Tree, entry: &Entry) -> Result<Option<Digest>> {
    sink.check(entry)?;
    let client = &sink.tree.client;
    let key = from.key(&entry.path);
    let changed = || from.error(ErrorKind::SourceChanged, "copy", &entry.path, "it is another object by now");
    let object = client.look(&key)?.ok_or_else(changed)?;
    let digest = sink.tree.recorded(&object)?;
    if metadata::read(&entry.path, &object, false, digest.as_ref()).identity() != entry.identity() {
        return Err(changed());
    }
    write(sink, entry, &object, &sink.tree.key(&entry.path), (digest.as_ref(), None))?;
    Ok(digest)
}

/// Copies an object to `to`, with the metadata of `entry`, `digest` and, where it is not taken over, of `there`.
pub(super) fn write(
    sink: &SinkState,
    entry: &Entry,
    object: &Object,
    to: &str,
    (digest, there): (Option<&Digest>, Option<&Object>),
) -> Result<()> {
    let client = &sink.tree.client;
    sink.with_metadata(entry, digest, there, |options| {
        if object.len <= client.terms().max_copy_len {
            return client.copy(object, to, options);
        }
        in_parts(sink, object, to, options)
    })
}

fn in_parts(sink: &SinkState, object: &Object, to: &str, options: &PutOptions) -> Result<()> {
    let client = &sink.tree.client;
    let mut options = options.clone();
    options.metadata.push(run_metadata());
    let upload = client.create(to, &options)?;
    let record = uploads::record(client, &upload, Encoding::default());
    let ranges: Vec<(u32, std::ops::Range<u64>)> = (1..)
        .zip((0..object.len).step_by(RANGE as usize))
        .map(|(number, start)| (number, start..(start + RANGE).min(object.len)))
        .collect();
    let copied = sink.send.each(&ranges, |(number, range)| {
        client.copy_part(object, range.clone(), &upload, *number).map(|tag| (tag, range.end - range.start))
    });
    let made = copied.into_iter().collect::<Result<Vec<_>>>().and_then(|parts| {
        let crc64 = joined_crc64(parts.iter().map(|(tag, len)| (tag.crc64.unwrap_or_default(), *len)));
        let tags: Vec<_> = parts.into_iter().map(|(tag, _)| tag).collect();
        client.complete(&upload, &tags, object.len, crc64, &options).map(drop)
    });
    if made.is_err() {
        // If the abort fails, the record stays: the upload is known as haul's own.
        client.abort(&upload)?;
    }
    if let Some(record) = record {
        record.done();
    }
    made
}

/// Gives an object the metadata of `entry`.
///
/// # Errors
/// The error of the failed request.
pub(super) fn restate(sink: &SinkState, entry: &Entry, object: &Object) -> Result<()> {
    // The copy may get another ETag, which would invalidate the sidecar.
    let digest = sink.tree.recorded(object)?;
    let mut object = object.clone();
    sidecar::complete(&sink.tree.client, &mut object)?;
    restate_with(sink, entry, &object, digest.as_ref())
}

/// Gives an object the metadata of `entry`, and `digest` as that of its content.
///
/// # Errors
/// The error of the failed request.
pub(super) fn restate_with(
    sink: &SinkState,
    entry: &Entry,
    object: &Object,
    digest: Option<&Digest>,
) -> Result<()> {
    write(sink, entry, object, &object.key, (digest, Some(object)))
}
