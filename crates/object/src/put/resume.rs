//! What an earlier run left of an upload.

use std::collections::HashMap;

use haul_core::Result;

use super::Target;
use crate::encoding::Encoding;
use crate::payload::Payload;
use crate::store::{HeldPart, PutOptions, Tag, Upload};
use crate::uploads::{self, Owner, Record};

/// Parts that are there.
#[derive(Default)]
pub(super) struct Held(HashMap<u32, HeldPart>);

impl Held {
    /// Whether nothing is there yet.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The mark of a part, if what is there is the same: by length, and by MD5 or the checksum that the store keeps.
    ///
    /// # Errors
    /// If the part cannot be read again to be compared.
    pub(super) fn matches(&self, number: u32, payload: &Payload) -> Result<Option<Tag>> {
        let Some(held) = self.0.get(&number).filter(|held| held.len == payload.len()) else {
            return Ok(None);
        };
        Ok(held.holds(payload)?.then(|| held.tag.clone()))
    }
}

/// Begins an upload, or with `resume` takes up the newest one of the same object that no process here works on, and that
/// is not known to be of a stream that was encoded in another way: it says so itself.
///
/// # Errors
/// If the store refuses.
pub(super) fn begin_or_resume(
    target: &Target,
    options: &PutOptions,
    encoding: Encoding,
    resume: bool,
) -> Result<(Upload, Held, Option<Record>)> {
    let (client, key) = (&target.client, &target.key);
    if resume {
        let mut uploads = client.uploads(key)?;
        uploads.retain(|upload| {
            upload.key == *key
                && uploads::owner(client, upload) != Owner::Busy
                && uploads::encoding(client, upload).is_none_or(|words| words == encoding.to_string())
        });
        // Times are written in one form, so their text sorts as they do.
        uploads.sort_by(|a, b| a.begun.cmp(&b.begun));
        if let Some(upload) = uploads.pop()
            && let Some(parts) = client.parts(&upload)?
        {
            let record = uploads::record(client, &upload, encoding);
            let held = Held(parts.into_iter().map(|part| (part.number, part)).collect());
            return Ok((upload, held, record));
        }
        client.note(&format!("nothing is left of an earlier upload of {}: it begins anew", client.name(key)));
    }
    let upload = client.create(key, options)?;
    let record = uploads::record(client, &upload, encoding);
    Ok((upload, Held::default(), record))
}
