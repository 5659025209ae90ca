//! Writes content that the store verifies, and completes uploads, whose answer may be lost.

use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::digest::hex;
use haul_core::{Error, ErrorKind, Result};
use md5::{Digest, Md5};

use super::bucket::Client;
use super::retry::RetryPolicy;
use super::run_id::RUN;
use crate::fault::{FailureClass, Fault};
use crate::payload::Payload;
use crate::store::{Checksum, PartOf, PutOptions, RequestProgress, Tag, Upload, Whole, md5_of};

impl Client {
    /// Writes an object in one request.
    ///
    /// # Errors
    /// The error of the request.
    pub fn put(&self, key: &str, body: &Payload, options: &PutOptions) -> Result<Tag> {
        let mut tries = 0;
        let put = self.checked(body, None, |check, at| {
            tries += 1;
            let put = self.store.put(key, body, options, check, at);
            let made = self.or_made(put, tries, key, options, None, at);
            made.map(|made| made.unwrap_or_else(|etag| known_by_run_id(etag, body)))
        });
        put.map_err(|fault| self.not_written(&fault, key, options))
    }

    /// Writes a small object.
    ///
    /// # Errors
    /// The error of the request.
    pub fn write_small(&self, key: &str, content: Vec<u8>, options: &PutOptions) -> Result<Tag> {
        self.put(key, &Payload::from_bytes(content), options)
    }

    /// Creates a multipart upload.
    ///
    /// # Errors
    /// The error of the request.
    pub fn create(&self, key: &str, options: &PutOptions) -> Result<Upload> {
        let id = self.falling_back(None, |check, at| self.store.create(key, options, check, at));
        let id = id.map_err(|fault| self.not_written(&fault, key, options))?;
        Ok(Upload { key: key.to_owned(), id, begun: String::new() })
    }

    /// Writes a part, unless it is `unwanted` by now; it may be written again.
    ///
    /// # Errors
    /// The error of the request.
    pub(crate) fn put_part(
        &self,
        part: PartOf<'_>,
        body: &Payload,
        unwanted: Option<&AtomicBool>,
    ) -> Result<Tag> {
        let _admitted = self.sent.admit(body.len(), || self.has_ended(unwanted));
        let _permit = self.limiter.permit();
        let put = self.checked(body, unwanted, |check, at| self.store.put_part(part, body, check, at));
        put.map_err(|fault| self.error(&fault, "write a part of", &part.upload.key))
    }

    /// Completes an upload from its parts, in order, and returns the ETag. `options` are those of its creation.
    ///
    /// # Errors
    /// The error of the request.
    pub fn complete(
        &self,
        upload: &Upload,
        parts: &[Tag],
        len: u64,
        crc64: u64,
        options: &PutOptions,
    ) -> Result<String> {
        let checked = parts.iter().all(|part| part.crc64.is_some());
        let whole = Whole { len, crc64: checked.then_some(crc64) };
        let mut tries = 0;
        // The store may take minutes to answer, and sends nothing meanwhile.
        let retry = RetryPolicy::new(self.timeout.saturating_mul(4));
        let made = self.ask(|_| {
            tries += 1;
            let at = RequestProgress::new(retry.stall().saturating_mul(4), &self.cancel, None);
            let made = self.store.complete(upload, parts, whole, options, &at);
            let made = self.or_made(made, tries, &upload.key, options, mark_of(parts), &at);
            made.map(|made| made.unwrap_or_else(|etag| etag))
        });
        made.map_err(|fault| self.not_written(&fault, &upload.key, options))
    }

    /// Checks whether a repeated request that failed had succeeded before, with its answer lost: then the object exists
    /// and has the id of this run or the expected ETag. Returns its ETag in place of an answer.
    fn or_made<T>(
        &self,
        made: Result<T, Fault>,
        tries: u32,
        key: &str,
        options: &PutOptions,
        mark: Option<String>,
        at: &RequestProgress<'_>,
    ) -> Result<Result<T, String>, Fault> {
        let fault = match made {
            Ok(made) => return Ok(Ok(made)),
            Err(fault)
                if tries > 1 && matches!(fault.class, FailureClass::NotFound | FailureClass::Condition) =>
            {
                fault
            }
            Err(fault) => return Err(fault),
        };
        let run = options.metadata.iter().find(|(name, _)| name == RUN).map(|(_, run)| &run[..]);
        match self.store.describe(key, at) {
            Ok((object, _))
                if run.is_some() && object.meta(RUN) == run
                    || mark.is_some_and(|mark| object.etag.trim_matches('"') == mark) =>
            {
                Ok(Err(object.etag))
            }
            _ => Err(fault),
        }
    }

    fn not_written(&self, fault: &Fault, key: &str, options: &PutOptions) -> Error {
        if fault.class == FailureClass::Condition && options.no_clobber {
            return self.there_already(key);
        }
        self.error(fault, "write", key)
    }

    /// The error for an existing object that must not be replaced.
    #[must_use]
    pub fn there_already(&self, key: &str) -> Error {
        let error =
            Error::new(ErrorKind::Io, self.side, "write", "it is there already, and --no-clobber was given");
        error.on(self.name(key))
    }

    /// Sends content that the store is to verify. If the answer does not confirm the checksum, and the ETag is not the
    /// MD5 of the content, sends it again with its MD5.
    fn checked(
        &self,
        body: &Payload,
        unwanted: Option<&AtomicBool>,
        mut request: impl FnMut(Checksum, &RequestProgress<'_>) -> Result<Tag, Fault>,
    ) -> Result<Tag, Fault> {
        self.falling_back(unwanted, |check, at| {
            let tag = request(check, at)?;
            let (known, same) = match check {
                Checksum::Crc64 => (tag.crc64.is_some(), tag.crc64.is_none_or(|sum| sum == body.crc64())),
                Checksum::Crc32c => match tag.crc32c {
                    Some(sum) => (true, sum == body.crc32c()?),
                    None => (false, true),
                },
                // The store refuses content that does not match its MD5.
                Checksum::Md5 => (true, tag.crc64.is_none_or(|sum| sum == body.crc64())),
            };
            if !known {
                // The store ignored the checksum. It verifies MD5, which costs more.
                self.md5.store(true, Ordering::Relaxed);
                if tag.md5() == Some(hex(&body.md5()?)) {
                    return Ok(tag);
                }
                // Either the content was damaged, or the ETag is not an MD5, as with KMS encryption. The ETag cannot
                // tell; the store can, given the MD5.
                return request(Checksum::Md5, at);
            }
            if same { Ok(tag) } else { Err(damaged()) }
        })
    }

    /// Uses the better checksum, and MD5 as soon as the store has refused the former.
    fn falling_back<T>(
        &self,
        unwanted: Option<&AtomicBool>,
        mut request: impl FnMut(Checksum, &RequestProgress<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.ask_unless(unwanted, |at| {
            let check = self.check();
            match request(check, at) {
                Err(fault) if check != Checksum::Md5 && refuses_checksums(&fault) => {
                    let answer = request(Checksum::Md5, at)?;
                    self.md5.store(true, Ordering::Relaxed);
                    Ok(answer)
                }
                other => other,
            }
        })
    }
}

/// The ETag of a multipart object, if the ETag of each part is its MD5: the MD5 of these, and their number.
fn mark_of(parts: &[Tag]) -> Option<String> {
    let mut hasher = Md5::new();
    for part in parts {
        let digits = md5_of(&part.etag)?;
        for at in (0..digits.len()).step_by(2) {
            hasher.update([u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?]);
        }
    }
    Some(format!("{}-{}", hex(&hasher.finalize()), parts.len()))
}

/// The tag of an object of this run whose answer was lost: the store has verified the content.
fn known_by_run_id(etag: String, body: &Payload) -> Tag {
    Tag { etag, crc64: Some(body.crc64()), crc32c: body.crc32c().ok(), ..Tag::default() }
}

fn damaged() -> Fault {
    Fault::new(FailureClass::Damaged, "the store has other content than haul sent")
}

/// Whether a store may have refused checksum headers that it does not support.
fn refuses_checksums(fault: &Fault) -> bool {
    fault.class == FailureClass::Unsupported || fault.class == FailureClass::Final && fault.status == 400
}
