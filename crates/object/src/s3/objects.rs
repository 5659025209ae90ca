//! Requests about whole objects.

use std::ops::Range;

use reqwest::Method;

use super::call::{Call, Head};
use super::{S3, options, xml};
use crate::fault::{Class, Fault};
use crate::meter::Kind;
use crate::payload::{Payload, base64, crc64_of};
use crate::store::{Activity, Answer, Checksum, Object, Page, PutOptions, Tag, Take};

impl S3 {
    pub(super) fn head_object(&self, key: &str, at: &Activity<'_>) -> Answer<Object> {
        let call = Call::new(Kind::Get, Method::HEAD, Some(key)).header("x-amz-checksum-mode", "ENABLED");
        let (head, _) = self.ask(&call, at)?;
        let len = head.get("content-length").and_then(|text| text.parse().ok());
        let len = len.ok_or_else(|| Fault::new(Class::Again, "the answer has no length"))?;
        let metadata = head.0.iter().filter_map(|(name, value)| {
            let name = name.as_str().strip_prefix("x-amz-meta-")?;
            Some((name.to_owned(), value.to_str().ok()?.to_owned()))
        });
        let whole = head.get("x-amz-checksum-type").is_none_or(|kind| kind == "FULL_OBJECT");
        // https://docs.aws.amazon.com/AmazonS3/latest/API/API_Object.html, "ETag".
        let keyed = head.get("x-amz-server-side-encryption").is_some_and(|kind| kind.starts_with("aws:kms"))
            || head.get("x-amz-server-side-encryption-customer-algorithm").is_some();
        Ok(Object {
            keyed,
            key: key.to_owned(),
            len,
            etag: head.etag()?,
            modified: head.get("last-modified").unwrap_or_default().to_owned(),
            class: head.get("x-amz-storage-class").map(str::to_owned),
            metadata: metadata.collect(),
            crc64: head.get("x-amz-checksum-crc64nvme").filter(|_| whole).and_then(crc64_of),
        })
    }

    pub(super) fn get_range(
        &self,
        key: &str,
        range: Range<u64>,
        etag: &str,
        take: Take<'_>,
        at: &Activity<'_>,
    ) -> Answer<()> {
        let wanted = range.end - range.start;
        let mut call = Call::new(Kind::Get, Method::GET, Some(key));
        call = call.header("range", format!("bytes={}-{}", range.start, range.end.saturating_sub(1)));
        if !etag.is_empty() {
            call = call.header("if-match", etag);
        }
        let mut read = 0;
        let mut counted = |bytes: &[u8]| {
            read += bytes.len() as u64;
            take(bytes);
        };
        self.stream(&call, &|head| is_of(head, &range, etag), &mut counted, wanted, at)?;
        if read < wanted {
            return Err(Fault::new(Class::Again, format!("the answer ended after {read} of {wanted} bytes")));
        }
        Ok(())
    }

    pub(super) fn get_object(&self, key: &str, limit: usize, at: &Activity<'_>) -> Answer<Vec<u8>> {
        let call = Call::new(Kind::Get, Method::GET, Some(key));
        let mut content = Vec::new();
        self.stream(&call, &|_| Ok(()), &mut |bytes| content.extend_from_slice(bytes), limit as u64, at)?;
        Ok(content)
    }

    pub(super) fn put_object(
        &self,
        key: &str,
        body: &Payload,
        options: &PutOptions,
        check: Checksum,
        at: &Activity<'_>,
    ) -> Answer<Tag> {
        let mut call = Call::new(Kind::Put, Method::PUT, Some(key));
        call.body = Some(body);
        call = options::conditional(options::written(call, options), options);
        let (head, _) = self.ask(&options::checked(call, body, check)?, at)?;
        tag(&head)
    }

    pub(super) fn list_objects(
        &self,
        prefix: &str,
        delimiter: bool,
        next: Option<&str>,
        at: &Activity<'_>,
    ) -> Answer<Page> {
        let mut call = Call::new(Kind::List, Method::GET, None).query("list-type", "2");
        call = call.query("encoding-type", "url").query("prefix", prefix);
        if delimiter {
            call = call.query("delimiter", "/");
        }
        if let Some(token) = next {
            call = call.query("continuation-token", token);
        }
        let page = xml::page(&self.ask(&call, at)?.1)?;
        if next.is_some() && page.next.as_deref() == next {
            return Err(Fault::new(
                Class::Final,
                "the store begins each page of the listing at the same place",
            ));
        }
        Ok(page)
    }

    pub(super) fn delete_objects(&self, keys: &[String], at: &Activity<'_>) -> Answer<Vec<(String, Fault)>> {
        if let [key] = keys {
            let call = Call::new(Kind::Delete, Method::DELETE, Some(key));
            return match self.ask(&call, at) {
                Ok(_) => Ok(Vec::new()),
                Err(fault) if fault.class == Class::NotFound && fault.code != "NoSuchBucket" => {
                    Ok(Vec::new())
                }
                Err(fault) => Err(fault),
            };
        }
        let body = Payload::from_bytes(xml::delete(keys)?);
        let mut call = Call::new(Kind::Delete, Method::POST, None).query("delete", "");
        call.body = Some(&body);
        let call = options::checked(call, &body, Checksum::Md5)?;
        xml::not_deleted(&self.ask(&call, at)?.1)
    }

    pub(super) fn copy_object(
        &self,
        from: &str,
        to: &str,
        options: &PutOptions,
        at: &Activity<'_>,
    ) -> Answer<()> {
        let mut call =
            Call::new(Kind::Put, Method::PUT, Some(to)).header("x-amz-copy-source", self.copy_source(from));
        if !options.metadata.is_empty() {
            call = call.header("x-amz-metadata-directive", "REPLACE");
        }
        let (_, content) = self.ask(&options::written(call, options), at)?;
        xml::copied(&content).map(drop)
    }

    /// The name of an object of this bucket, as a source of copies.
    pub(super) fn copy_source(&self, key: &str) -> String {
        let mut source = format!("/{}/", self.address.bucket());
        super::address::encode(key, true, &mut source);
        source
    }
}

/// Looks whether an answer is what was asked for: not all stores and proxies know conditions and ranges.
fn is_of(head: &Head, range: &Range<u64>, etag: &str) -> Answer<()> {
    let bare = |etag: &str| etag.trim_start_matches("W/").trim_matches('"').to_owned();
    let same = etag.is_empty() || head.get("etag").is_none_or(|found| bare(found) == bare(etag));
    let wanted = format!("bytes {}-{}/", range.start, range.end.saturating_sub(1));
    let placed = match head.get("content-range") {
        Some(found) => found.starts_with(&wanted),
        // The whole, in place of a range that is the whole.
        None => {
            let len = head.get("content-length").and_then(|text| text.parse().ok());
            range.start == 0 && len == Some(range.end)
        }
    };
    if same && placed {
        return Ok(());
    }
    Err(Fault::new(Class::Condition, "the answer is not what was asked for"))
}

/// What an answer says of what was written.
pub(super) fn tag(head: &Head) -> Answer<Tag> {
    Ok(Tag { etag: head.etag()?, crc64: head.get("x-amz-checksum-crc64nvme").and_then(crc64_of) })
}

/// A checksum as the store writes it.
pub(super) fn crc64_text(crc64: u64) -> String {
    base64(&crc64.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderMap, HeaderValue};

    #[test]
    fn an_answer_of_another_object_or_range_is_not_taken() {
        let answer = |headers: &[(&'static str, &'static str)]| {
            let pairs = headers.iter().map(|(name, value)| {
                (reqwest::header::HeaderName::from_static(name), HeaderValue::from_static(value))
            });
            Head(pairs.collect::<HeaderMap>())
        };
        let part = ("content-range", "bytes 2-4/9");
        let is = |headers: &[_], range: Range<u64>| is_of(&answer(headers), &range, "\"e\"").is_ok();
        assert!(is(&[part, ("etag", "\"e\"")], 2..5) && is(&[part, ("etag", "W/\"e\"")], 2..5));
        assert!(!is(&[part, ("etag", "\"f\"")], 2..5));
        assert!(!is(&[part], 2..6) && !is(&[part], 0..5) && !is(&[("content-length", "9")], 2..5));
        assert!(is(&[("content-length", "9")], 0..9) && !is(&[("content-length", "9")], 0..5));
    }
}
