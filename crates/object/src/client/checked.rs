//! Requests whose content the store checks, and the end of an upload, whose answer may be lost.

use std::sync::atomic::Ordering;

use haul_core::digest::hex;
use haul_core::{Error, ErrorKind, Result};
use md5::{Digest, Md5};

use super::Client;
use super::patience::Patience;
use crate::fault::{Class, Fault};
use crate::payload::Payload;
use crate::store::{Activity, Checksum, PartOf, PutOptions, Tag, Upload, Whole, md5_of};

/// The note by which an object is known to be of one run, when the answer that it was made is lost.
pub(crate) const RUN: &str = "haul-run";

impl Client {
    /// Writes an object in one request.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn put(&self, key: &str, body: &Payload, options: &PutOptions) -> Result<Tag> {
        let mut tries = 0;
        let put = self.checked(body, |check, at| {
            tries += 1;
            let put = self.store.put(key, body, options, check, at);
            let made = self.or_made(put, tries, key, options, None, at);
            made.map(|made| made.unwrap_or_else(|etag| known_by_note(etag, body)))
        });
        put.map_err(|fault| self.not_written(&fault, key, options))
    }

    /// Begins an upload in parts.
    ///
    /// # Errors
    /// If it cannot be begun.
    pub fn create(&self, key: &str, options: &PutOptions) -> Result<Upload> {
        let id = self.falling_back(|check, at| self.store.create(key, options, check, at));
        let id = id.map_err(|fault| self.not_written(&fault, key, options))?;
        Ok(Upload { key: key.to_owned(), id, begun: String::new() })
    }

    /// Writes a part; it may be written again.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn put_part(&self, part: PartOf<'_>, body: &Payload) -> Result<Tag> {
        let _permit = self.governor.permit();
        let put = self.checked(body, |check, at| self.store.put_part(part, body, check, at));
        put.map_err(|fault| self.error(&fault, "write a part of", &part.upload.key))
    }

    /// Makes the object of its parts, in their order, and gives its mark. `options` are those of its beginning.
    ///
    /// # Errors
    /// If it cannot be made.
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
        // The store may take minutes to answer, and sends nothing before.
        let patience = Patience::new(self.timeout.saturating_mul(4));
        let made = self.ask(|_| {
            tries += 1;
            let at = Activity::new(patience.stall().saturating_mul(4), &self.cancel, None);
            let made = self.store.complete(upload, parts, whole, options, &at);
            let made = self.or_made(made, tries, &upload.key, options, mark_of(parts), &at);
            made.map(|made| made.unwrap_or_else(|etag| etag))
        });
        made.map_err(|fault| self.not_written(&fault, &upload.key, options))
    }

    /// What says no the second time may have been done the first time, when the answer was lost: then the object is
    /// there, and bears the note of this run or the mark that is expected. Gives that mark in place of an answer.
    fn or_made<T>(
        &self,
        made: Result<T, Fault>,
        tries: u32,
        key: &str,
        options: &PutOptions,
        mark: Option<String>,
        at: &Activity<'_>,
    ) -> Result<Result<T, String>, Fault> {
        let fault = match made {
            Ok(made) => return Ok(Ok(made)),
            Err(fault) if tries > 1 && matches!(fault.class, Class::NotFound | Class::Condition) => fault,
            Err(fault) => return Err(fault),
        };
        let run = options.metadata.iter().find(|(name, _)| name == RUN).map(|(_, run)| &run[..]);
        match self.store.head(key, at) {
            Ok(object)
                if run.is_some() && object.note(RUN) == run
                    || mark.is_some_and(|mark| object.etag.trim_matches('"') == mark) =>
            {
                Ok(Err(object.etag))
            }
            _ => Err(fault),
        }
    }

    fn not_written(&self, fault: &Fault, key: &str, options: &PutOptions) -> Error {
        if fault.class == Class::Condition && options.no_clobber {
            return self.there_already(key);
        }
        self.error(fault, "write", key)
    }

    /// The error for an object that is not to be replaced.
    pub(crate) fn there_already(&self, key: &str) -> Error {
        let error =
            Error::new(ErrorKind::Io, self.side, "write", "it is there already, and --no-clobber was given");
        error.on(self.name(key))
    }

    /// Sends content that the store is to check; where it does not say that it has, and its mark is not the MD5 of the
    /// content, it is sent once more with that.
    fn checked(
        &self,
        body: &Payload,
        mut request: impl FnMut(Checksum, &Activity<'_>) -> Result<Tag, Fault>,
    ) -> Result<Tag, Fault> {
        self.falling_back(|check, at| {
            let tag = request(check, at)?;
            let (known, same) = match check {
                Checksum::Crc64 => (tag.crc64.is_some(), tag.crc64.is_none_or(|sum| sum == body.crc64())),
                Checksum::Crc32c => match tag.crc32c {
                    Some(sum) => (true, sum == body.crc32c()?),
                    None => (false, true),
                },
                // It refuses what does not fit.
                Checksum::Md5 => (true, tag.crc64.is_none_or(|sum| sum == body.crc64())),
            };
            if !known {
                // It did not look at the checksum. MD5 it checks, and it costs more.
                self.md5.store(true, Ordering::Relaxed);
                if tag.md5() == Some(hex(&body.md5()?)) {
                    return Ok(tag);
                }
                // Either it was damaged, or its mark is no MD5, as where a key service encrypts: that cannot be told
                // from the mark, and is found out by the store when it comes with its MD5.
                return request(Checksum::Md5, at);
            }
            if same { Ok(tag) } else { Err(damaged()) }
        })
    }

    /// Asks with the better checksum, and with the older one from the moment that the store refuses the former.
    fn falling_back<T>(
        &self,
        mut request: impl FnMut(Checksum, &Activity<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.ask(|at| {
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

/// The mark of an object that is made of parts, where each part's mark is its MD5: the MD5 of all of these and their
/// number.
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

/// What is known of an object whose answer was lost, and that is there with the note of this run: all that was sent
/// was checked there.
fn known_by_note(etag: String, body: &Payload) -> Tag {
    Tag { etag, crc64: Some(body.crc64()), crc32c: body.crc32c().ok(), ..Tag::default() }
}

fn damaged() -> Fault {
    Fault::new(Class::Damaged, "what the store has is not what was sent")
}

/// Whether a refusal may be for headers that the store does not know.
fn refuses_checksums(fault: &Fault) -> bool {
    fault.class == Class::Unsupported || fault.class == Class::Final && fault.status == 400
}
