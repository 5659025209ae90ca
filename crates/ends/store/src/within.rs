//! What a store copies by itself: objects within a bucket, further names of a file, and an object onto itself to give it
//! other notes.

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use haul_core::{
    Answer, Batch, Digest, Entry, Error, ErrorKind, HardLink, Left, Outcome, RelPath, Result, SLICE_LEN,
    WriteDone,
};
use haul_object::client::{joined_crc64, run_note};
use haul_object::encoding::Encoding;
use haul_object::uploads;
use haul_object::{Object, PutOptions};

use super::pages::Unknown;
use super::sink::ObjectSink;
use super::tree::Tree;
use super::{notes, offer};

/// The ranges that objects are copied in which are larger than the store copies in one request.
pub(super) const RANGE: u64 = 1 << 30;

/// Large files that are being copied, with who waits for that.
#[derive(Default)]
pub(super) struct Copies(Mutex<HashMap<RelPath, LargeFile>>);

enum LargeFile {
    /// Somebody copies it.
    UnderWay(Vec<WriteDone>),
    Done(Option<Digest>),
}

/// Copies the objects that a batch names from `from`, which is in the same bucket.
pub(super) fn fetch(sink: &ObjectSink, from: &Tree, batch: &Arc<Batch>, done: WriteDone) {
    if let Some((entry, _)) = batch.get(0)
        && entry.len > SLICE_LEN
        && batch.slices.len() == 1
    {
        return fetch_large(sink, from, entry, done);
    }
    let items: Vec<_> = batch.iter().collect();
    done(sink.send.each(&items, |(entry, _)| copy(sink, from, entry).map(Outcome::Committed)));
}

/// Each slice of a large file is asked for; the first copies all of it.
fn fetch_large(sink: &ObjectSink, from: &Tree, entry: &Entry, done: WriteDone) {
    let copies = || sink.copies.0.lock();
    let committed = |digest: &Option<Digest>| Outcome::Committed(*digest);
    let mine = {
        let mut copies = copies();
        match copies.get_mut(&entry.path) {
            None => {
                copies.insert(entry.path.clone(), LargeFile::UnderWay(Vec::new()));
                done
            }
            Some(LargeFile::UnderWay(waiting)) => return waiting.push(done),
            Some(LargeFile::Done(digest)) => {
                let outcome = committed(digest);
                drop(copies);
                return done(vec![Ok(outcome)]);
            }
        }
    };
    let copied = copy(sink, from, entry);
    let before = match &copied {
        Ok(digest) => copies().insert(entry.path.clone(), LargeFile::Done(*digest)),
        Err(_) => copies().remove(&entry.path),
    };
    mine(vec![copied.clone().map(|digest| committed(&digest))]);
    if let Some(LargeFile::UnderWay(waiting)) = before {
        waiting.into_iter().for_each(|done| done(vec![copied.clone().map(|digest| committed(&digest))]));
    }
}

/// Copies one object, if it still is what was found. Gives the digest that is recorded of it.
fn copy(sink: &ObjectSink, from: &Tree, entry: &Entry) -> Result<Option<Digest>> {
    let client = &sink.tree.client;
    let key = from.key(&entry.path);
    let changed = || from.error(ErrorKind::SourceChanged, "copy", &entry.path, "it is another object by now");
    let object = client.look(&key)?.ok_or_else(changed)?;
    let digest = sink.tree.recorded(&object)?;
    if notes::read(&entry.path, &object, false, digest.as_ref()).identity() != entry.identity() {
        return Err(changed());
    }
    write(sink, entry, &object, &sink.tree.key(&entry.path), digest.as_ref())?;
    Ok(digest)
}

/// Has the store copy an object to `to`, with the notes of `entry`.
fn write(sink: &ObjectSink, entry: &Entry, object: &Object, to: &str, digest: Option<&Digest>) -> Result<()> {
    let client = &sink.tree.client;
    sink.noted(entry, digest, |options| {
        if object.len <= client.copies() {
            return client.copy(object, to, options);
        }
        in_parts(sink, object, to, options)
    })
}

fn in_parts(sink: &ObjectSink, object: &Object, to: &str, options: &PutOptions) -> Result<()> {
    let client = &sink.tree.client;
    let mut options = options.clone();
    options.metadata.push(run_note());
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
        // What stays is known as haul's own.
        client.abort(&upload)?;
    }
    if let Some(record) = record {
        record.done();
    }
    made
}

/// Gives an object the notes of `entry`.
///
/// # Errors
/// If the store cannot.
pub(super) fn restate(sink: &ObjectSink, entry: &Entry, object: &Object) -> Result<()> {
    // As the mark of an object of parts may change, what is beside it would count for nothing.
    let digest = sink.tree.recorded(object)?;
    restate_with(sink, entry, object, digest.as_ref())
}

/// The same, with the digest of its content.
///
/// # Errors
/// If the store cannot.
pub(super) fn restate_with(
    sink: &ObjectSink,
    entry: &Entry,
    object: &Object,
    digest: Option<&Digest>,
) -> Result<()> {
    write(sink, entry, object, &object.key, digest)
}

/// Makes a further name of a file: a copy, as a store has no links, that bears the same note of being one.
pub(super) fn link(sink: &ObjectSink, link: &HardLink) -> Result<Answer> {
    let (client, entry) = (&sink.tree.client, &*link.entry);
    match client.look(&sink.tree.key(&entry.path))? {
        None => {
            let folder = match entry.path.parent() {
                Some(parent) => sink.pages.of(&sink.tree, &parent)?.seen(&sink.tree, &entry.path).folder,
                None => Err(Unknown),
            };
            if let Some(left) = offer::no_object(sink, &entry.path, folder)? {
                return Ok(Answer::Left(left));
            }
        }
        Some(_) if sink.options.ignore_existing => return Ok(Answer::Left(Left::Exists)),
        Some(object) => {
            let there = notes::read(&entry.path, &object, false, None);
            if offer::is_newer(sink, &there, entry) {
                return Ok(Answer::Left(Left::Newer));
            }
            if notes::is_same(&object, entry) && there.len == entry.len {
                return Ok(Answer::Same);
            }
        }
    }
    if sink.options.dry_run {
        return Ok(Answer::Made);
    }
    let first = client
        .look(&sink.tree.key(&link.to))?
        .ok_or_else(|| Error::no_first_name(sink.tree.side).on(sink.tree.shown(&entry.path)))?;
    let digest = sink.tree.recorded(&first)?;
    write(sink, entry, &first, &sink.tree.key(&entry.path), digest.as_ref())?;
    Ok(Answer::Made)
}
