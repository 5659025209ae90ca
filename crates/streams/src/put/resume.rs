//! Resumes an upload that an earlier run left.

use std::collections::HashMap;

use haul_core::Result;

use super::settings::ObjectTarget;
use crate::encoding::Encoding;
use crate::uploads::{self, Owner, UploadRecord};
use haul_object::Payload;
use haul_object::{HeldPart, PutOptions, Tag, Upload};

/// The parts that the store holds.
#[derive(Default)]
pub(super) struct HeldParts(HashMap<u32, HeldPart>);

impl HeldParts {
    /// Whether it holds none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The tag of a part, if the store holds the same content: by length, and by MD5 or the checksum that the store
    /// keeps.
    ///
    /// # Errors
    /// The error of reading the content again.
    pub(super) fn matches(&self, number: u32, payload: &Payload) -> Result<Option<Tag>> {
        let Some(held) = self.0.get(&number).filter(|held| held.len == payload.len()) else {
            return Ok(None);
        };
        Ok(held.holds(payload)?.then(|| held.tag.clone()))
    }
}

/// Begins an upload. With `resume`, takes up the newest upload of the same object that no local process works on and
/// that is not recorded with another encoding; a message says if there is none.
///
/// # Errors
/// The error of the failed request.
pub(super) fn begin_or_resume(
    target: &ObjectTarget,
    options: &PutOptions,
    encoding: Encoding,
    resume: bool,
) -> Result<(Upload, HeldParts, Option<UploadRecord>)> {
    let (client, key) = (&target.client, &target.key);
    if resume {
        let mut uploads = client.uploads(key)?;
        uploads.retain(|upload| {
            upload.key == *key
                && uploads::owner(client, upload) != Owner::Busy
                && uploads::encoding(client, upload).is_none_or(|words| words == encoding.to_string())
        });
        // All times have the same format, so text order is time order.
        uploads.sort_by(|a, b| a.begun.cmp(&b.begun));
        if let Some(upload) = uploads.pop()
            && let Some(parts) = client.parts(&upload)?
        {
            let record = uploads::record(client, &upload, encoding);
            let held = HeldParts(parts.into_iter().map(|part| (part.number, part)).collect());
            return Ok((upload, held, record));
        }
        client
            .notify(&format!("nothing is left of an earlier upload of {}: it begins anew", client.name(key)));
    }
    let upload = client.create(key, options)?;
    let record = uploads::record(client, &upload, encoding);
    Ok((upload, HeldParts::default(), record))
}
