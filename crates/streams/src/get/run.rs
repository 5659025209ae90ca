//! Moves one object to its output.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use haul_core::{Digest, Error, ErrorKind, Result, SLICE_LEN, Side};
use haul_object::{Client, Object};
use haul_threads::{ScopedThreads, both};

use super::check::{Check, CheckedBy};
use super::decode::{self, StreamDecoder};
use super::object::ObjectRanges;
use super::output::ContentOutput;
use super::pieces::deliver;
use super::settings::{GetSettings, GetStatus, Got};
use super::stored::StoredBytes;
use super::window::Window;
use crate::encoding::{self, Encoding};
use crate::sidecar::{self, StoredRecord};

/// Looks up the object under `key`.
///
/// # Errors
/// `NotFound` if there is none, else the error of the request.
pub fn find(client: &Client, key: &str) -> Result<Object> {
    client.head(key)?.ok_or_else(|| client.missing(key, "find"))
}

/// Moves an object to `output`, decoded as its record says.
///
/// # Errors
/// `Corrupt` if it does not verify, else the error of reading, decoding or writing. The last bytes were not written
/// then.
pub fn get(
    client: &Client,
    object: &Object,
    mut output: ContentOutput,
    settings: &GetSettings,
    status: &Arc<GetStatus>,
) -> Result<Got> {
    let mut found = None;
    if output.there() > 0 {
        let recorded = sidecar::find(client, object)?;
        // The position in the stored object at which to resume a decoded stream is unknown.
        if is_decoded(&recorded, settings) {
            output.restart()?;
        }
        // So that ranges are slices.
        output.align(SLICE_LEN)?;
        found = Some(recorded);
    }
    // The metadata decides how memory is divided; the sidecar, read later, decides how to decode.
    let may_decode = !settings.raw && object.meta(encoding::KEY).is_some();
    let memory = settings.memory - if may_decode { decode::share(settings.memory) } else { 0 };
    let ranges = ObjectRanges::new(client, object, memory);
    let window = Window::new(&ranges, output.there(), ranges.buffers(), &status.pace);
    let got = thread::scope(|scope| {
        let fetchers = ScopedThreads::new(scope, "range", |_| window.fetch());
        if let Err(error) = fetchers.grow(1) {
            window.end();
            return Err(error);
        }
        let recorded = both(
            "find",
            || found.take().map_or_else(|| sidecar::find(client, object), Ok),
            || fetchers.grow(window.threads()),
        );
        let recorded = recorded.and_then(|(recorded, _)| recorded);
        let delivered = recorded
            .and_then(|found| stream((&window, &ranges, object), found, &mut output, settings, status));
        window.end();
        delivered
    });
    output.end(got.map(|(checked, encoding, digest)| {
        let plain = status.plain.load(Ordering::Relaxed);
        let len = if encoding.is_plain() { object.len } else { plain };
        Got { checked, asked_again: window.asked_again(), encoding, len, digest, sha256: None }
    }))
}

/// Whether an object with this record is decoded.
fn is_decoded(found: &StoredRecord, settings: &GetSettings) -> bool {
    !settings.raw && found.encoding != Ok(Encoding::default())
}

/// Writes the object, decoded and checked. Returns how it was checked, its encoding, and the digest of the output,
/// if that is recorded.
fn stream(
    (window, ranges, object): (&Window<'_>, &ObjectRanges<'_>, &Object),
    found: StoredRecord,
    output: &mut ContentOutput,
    settings: &GetSettings,
    status: &GetStatus,
) -> Result<(Option<CheckedBy>, Encoding, Option<Digest>)> {
    let name = &window.name();
    let mut check = Check::new(object, found.stored.as_ref());
    if found.stored.is_some_and(|proof| proof.len != object.len) {
        let cause = "it has another length than was recorded";
        return Err(Error::new(ErrorKind::Corrupt, Side::Source, "verify", cause).on(name));
    }
    if settings.encrypted_only && found.encoding.as_ref().is_ok_and(|found| !found.encrypted) {
        return Err(plain(name));
    }
    if found.stored.is_none() {
        ranges.stop_hashing();
    }
    output.reread(&mut |bytes| check.update(bytes))?;
    status.resumed.store(output.there(), Ordering::Relaxed);
    let checked = Cell::new(None);
    let mut stored = StoredBytes::new(window, check, name, status, &checked);
    if !is_decoded(&found, settings) {
        let digest = found.stored.map(|proof| proof.digest);
        return Ok((deliver(&mut stored, output)?, Encoding::default(), digest));
    }
    let encoding = found.encoding.map_err(|words| unknown(&words, name))?;
    let mut decoder = StreamDecoder::new(stored, encoding, &found.plain, settings)?;
    let digest = decoder.digest();
    Ok((deliver(&mut decoder, output)?, encoding, digest))
}

/// The error for an unencrypted object where an encrypted one was expected: anyone who may write to the bucket can have
/// replaced it.
pub(crate) fn plain(name: &str) -> Error {
    let cause = "it is not encrypted, and --identity was given";
    let error = Error::new(ErrorKind::Corrupt, Side::Source, "verify", cause).on(name);
    error.with_hint("somebody may have replaced it; --allow-plain takes it as it is")
}

pub(crate) fn unknown(words: &str, name: &str) -> Error {
    let cause = format!("it is stored as `{words}`, which this version does not know");
    let error = Error::new(ErrorKind::Unsupported, Side::Source, "decode", cause).on(name);
    error.with_hint("--raw gets the stored bytes")
}
