//! Requests about blocks, the parts of an uncommitted blob.
//!
//! The name of a block contains its upload, number and checksum; all names have the same length, as Azure requires:
//!
//! ```text
//! base64( ID(16) - NUMBER(5) - CRC64(16) )    ID: the time in seconds, 8 hexadecimal digits, and 8 random ones
//! ```
//!
//! Azure lists only names and lengths of blocks, so the checksum by which a later run compares content is in the name.

use std::collections::HashMap;
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;

use super::container::{Azure, tag};
use super::options::{check_options, checked, written};
use super::xml;
use crate::fault::{FailureClass, Fault};
use crate::http::HttpCall;
use crate::meter::RequestKind;
use crate::payload::{Payload, base64};
use crate::store::{
    Checksum, HeldPart, Object, PartOf, PutOptions, RequestProgress, RequestResult, Tag, Upload,
    UploadRequests, Whole,
};
use crate::time;

/// The id of a new upload.
fn new_id() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:08x}{:08x}", now.as_secs() as u32, haul_core::random::number() as u32)
}

/// When the upload with this id began.
fn begun(id: &str) -> String {
    u64::from_str_radix(id.get(..8).unwrap_or_default(), 16).map_or_else(|_| String::new(), time::of_unix)
}

fn name_of(id: &str, number: u32, crc64: u64) -> String {
    base64(format!("{id}-{number:05}-{crc64:016x}").as_bytes())
}

/// Parses the upload, number and checksum in a block name; `None` if it is not haul's.
fn read_name(name: &str) -> Option<(String, u32, u64)> {
    let text = String::from_utf8(STANDARD.decode(name).ok()?).ok()?;
    let mut words = text.split('-');
    let (id, number, crc64) = (words.next()?, words.next()?, words.next()?);
    let right = id.len() == 16 && number.len() == 5 && crc64.len() == 16 && words.next().is_none();
    let crc64 = u64::from_str_radix(crc64, 16).ok()?;
    right.then_some((id.to_owned(), number.parse().ok()?, crc64))
}

impl Azure {
    /// The uncommitted blocks of a blob that haul wrote, by upload.
    fn blocks_of(
        &self,
        key: &str,
        at: &RequestProgress<'_>,
    ) -> RequestResult<HashMap<String, Vec<HeldPart>>> {
        let call = HttpCall::new(RequestKind::List, Method::GET, Some(key));
        let call = call.query("comp", "blocklist").query("blocklisttype", "uncommitted");
        let mut uploads: HashMap<String, Vec<HeldPart>> = HashMap::new();
        for (name, len) in self.asked(&call, at, xml::blocks)? {
            if let Some((id, number, crc64)) = read_name(&name) {
                let tag = Tag { etag: name, crc64: Some(crc64), ..Tag::default() };
                uploads.entry(id).or_default().push(HeldPart { number, len, tag });
            }
        }
        for parts in uploads.values_mut() {
            parts.sort_by_key(|part| part.number);
        }
        Ok(uploads)
    }
}

impl UploadRequests for Azure {
    /// Makes no request: blocks exist as soon as they are written.
    fn create(
        &self,
        _: &str,
        options: &PutOptions,
        _: Checksum,
        _: &RequestProgress<'_>,
    ) -> RequestResult<String> {
        check_options(options)?;
        Ok(new_id())
    }

    fn put_part(
        &self,
        part: PartOf<'_>,
        body: &Payload,
        check: Checksum,
        at: &RequestProgress<'_>,
    ) -> RequestResult<Tag> {
        let name = name_of(&part.upload.id, part.number, body.crc64());
        let mut call = HttpCall::new(RequestKind::Put, Method::PUT, Some(&part.upload.key));
        call = call.query("comp", "block").query("blockid", &name);
        call.body = Some(body);
        let (head, _) = self.ask(&checked(call, body, check)?, at)?;
        Ok(tag(&head, name))
    }

    fn copy_part(
        &self,
        _: &Object,
        _: Range<u64>,
        _: PartOf<'_>,
        _: &RequestProgress<'_>,
    ) -> RequestResult<Tag> {
        // Put Block From URL requires a separate signature for its source.
        Err(Fault::new(FailureClass::Unsupported, "haul makes no block of what Azure has already"))
    }

    fn complete(
        &self,
        upload: &Upload,
        parts: &[Tag],
        _: Whole,
        options: &PutOptions,
        at: &RequestProgress<'_>,
    ) -> RequestResult<String> {
        let body = Payload::from_bytes(xml::block_list(parts)?);
        let mut call =
            HttpCall::new(RequestKind::Put, Method::PUT, Some(&upload.key)).query("comp", "blocklist");
        call.body = Some(&body);
        let (head, _) = self.ask(&checked(written(call, options), &body, Checksum::Md5)?, at)?;
        self.http.recognition.understood(&self.login, &head, head.etag())
    }

    /// There is no such request; see [`Terms::keeps_uploads`](crate::Terms::keeps_uploads).
    fn abort(&self, _: &Upload, _: &RequestProgress<'_>) -> RequestResult<()> {
        Ok(())
    }

    fn parts(
        &self,
        upload: &Upload,
        after: u32,
        at: &RequestProgress<'_>,
    ) -> RequestResult<(Vec<HeldPart>, bool)> {
        let mut parts = self.blocks_of(&upload.key, at)?.remove(&upload.id).unwrap_or_default();
        parts.retain(|part| part.number > after);
        Ok((parts, false))
    }

    fn uploads(
        &self,
        key: &str,
        _: Option<&Upload>,
        at: &RequestProgress<'_>,
    ) -> RequestResult<(Vec<Upload>, bool)> {
        let ids = match self.blocks_of(key, at) {
            Ok(blocks) => blocks.into_keys(),
            Err(Fault { class: FailureClass::NotFound, .. }) => return Ok((Vec::new(), false)),
            Err(fault) => return Err(fault),
        };
        let mut uploads: Vec<Upload> =
            ids.map(|id| Upload { begun: begun(&id), key: key.to_owned(), id }).collect();
        uploads.sort_by(|a, b| (&a.begun, &a.id).cmp(&(&b.begun, &b.id)));
        Ok((uploads, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_names_identify_the_part_and_have_one_length() {
        let id = new_id();
        let (first, last) = (name_of(&id, 1, 0), name_of(&id, 50_000, u64::MAX));
        assert_eq!(first.len(), last.len());
        // Azure accepts at most 64 bytes before base64.
        assert!(STANDARD.decode(&first).unwrap().len() <= 64);
        assert_eq!(read_name(&last), Some((id.clone(), 50_000, u64::MAX)));
        for other in ["", "YQ==", &base64(b"a-b-c"), &base64(format!("{id}-00001-x").as_bytes())] {
            assert_eq!(read_name(other), None, "{other}");
        }
        assert_eq!(begun("386e1c80ffffffff"), "2000-01-01T15:25:52Z");
        assert_eq!(begun(""), "");
    }
}
