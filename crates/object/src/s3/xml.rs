//! What S3 says and is told in XML. Answers are untrusted: what does not parse is an error of the store.

use serde::{Deserialize, Serialize};

use crate::fault::{Class, Fault};
use crate::payload::{base64, crc64_of};
use crate::store::{Answer, HeldPart, Object, Page, Tag, Upload};
use crate::xml::{decode, parse, print};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listing {
    encoding_type: Option<String>,
    #[serde(default)]
    contents: Vec<Contents>,
    #[serde(default)]
    common_prefixes: Vec<Prefix>,
    #[serde(default)]
    is_truncated: bool,
    next_continuation_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Contents {
    key: String,
    #[serde(default)]
    last_modified: String,
    #[serde(rename = "ETag", default)]
    etag: String,
    size: u64,
    storage_class: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Prefix {
    prefix: String,
}

/// A page of objects.
pub(super) fn page(content: &[u8]) -> Answer<Page> {
    let listing: Listing = parse(content)?;
    let encoding = listing.encoding_type.as_deref();
    let object = |found: Contents| {
        Ok(Object {
            key: decode(found.key, encoding)?,
            len: found.size,
            etag: found.etag,
            modified: found.last_modified,
            class: found.storage_class,
            ..Object::default()
        })
    };
    let objects = listing.contents.into_iter().map(object).collect::<Answer<_>>()?;
    let prefixes = listing.common_prefixes.into_iter().map(|found| decode(found.prefix, encoding));
    let next = listing.next_continuation_token.filter(|token| !token.is_empty());
    if listing.is_truncated && next.is_none() {
        return Err(Fault::new(Class::Final, "the listing goes on, and the store does not say where"));
    }
    Ok(Page { objects, prefixes: prefixes.collect::<Answer<_>>()?, next })
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Uploads {
    encoding_type: Option<String>,
    #[serde(default)]
    upload: Vec<Begun>,
    #[serde(default)]
    is_truncated: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Begun {
    key: String,
    upload_id: String,
    #[serde(default)]
    initiated: String,
}

/// A page of uploads, and whether there are more.
pub(super) fn uploads(content: &[u8]) -> Answer<(Vec<Upload>, bool)> {
    let list: Uploads = parse(content)?;
    let encoding = list.encoding_type.as_deref();
    let upload = |begun: Begun| {
        Ok(Upload { key: decode(begun.key, encoding)?, id: begun.upload_id, begun: begun.initiated })
    };
    Ok((list.upload.into_iter().map(upload).collect::<Answer<_>>()?, list.is_truncated))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Parts {
    #[serde(default)]
    part: Vec<Part>,
    #[serde(default)]
    is_truncated: bool,
}

#[derive(Deserialize)]
struct Part {
    #[serde(rename = "PartNumber")]
    number: u32,
    #[serde(rename = "Size")]
    size: u64,
    #[serde(rename = "ETag", default)]
    etag: String,
    #[serde(rename = "ChecksumCRC64NVME")]
    crc64: Option<String>,
}

/// A page of parts, and whether there are more.
pub(super) fn parts(content: &[u8]) -> Answer<(Vec<HeldPart>, bool)> {
    let list: Parts = parse(content)?;
    let held = |part: Part| {
        let crc64 = part.crc64.as_deref().and_then(crc64_of);
        HeldPart {
            number: part.number,
            len: part.size,
            tag: Tag { etag: part.etag, crc64, ..Tag::default() },
        }
    };
    Ok((list.part.into_iter().map(held).collect(), list.is_truncated))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Created {
    upload_id: String,
}

/// The id of an upload that was begun.
pub(super) fn upload_id(content: &[u8]) -> Answer<String> {
    let created: Created = parse(content)?;
    Ok(created.upload_id)
}

#[derive(Deserialize)]
struct Made {
    #[serde(rename = "ETag")]
    etag: String,
    #[serde(rename = "ChecksumCRC64NVME")]
    crc64: Option<String>,
}

/// The mark of an object that was made of parts.
pub(super) fn completed(content: &[u8]) -> Answer<String> {
    let made: Made = parse(content)?;
    Ok(made.etag)
}

/// The mark of a copy.
pub(super) fn copied(content: &[u8]) -> Answer<Tag> {
    let made: Made = parse(content)?;
    Ok(Tag { crc64: made.crc64.as_deref().and_then(crc64_of), etag: made.etag, ..Tag::default() })
}

#[derive(Serialize)]
struct Completion<'a> {
    #[serde(rename = "Part")]
    parts: Vec<CompletedPart<'a>>,
}

#[derive(Serialize)]
struct CompletedPart<'a> {
    #[serde(rename = "PartNumber")]
    number: u32,
    #[serde(rename = "ETag")]
    etag: &'a str,
    #[serde(rename = "ChecksumCRC64NVME", skip_serializing_if = "Option::is_none")]
    crc64: Option<String>,
}

/// The parts that an object is made of, numbered from 1.
pub(super) fn complete(tags: &[Tag]) -> Answer<String> {
    let part = |(number, tag): (u32, &'_ Tag)| -> (u32, String, Option<String>) {
        (number, tag.etag.clone(), tag.crc64.map(|crc64| base64(&crc64.to_be_bytes())))
    };
    let owned: Vec<_> = (1..).zip(tags).map(part).collect();
    let parts = owned.iter().map(|(number, etag, crc64)| CompletedPart {
        number: *number,
        etag,
        crc64: crc64.clone(),
    });
    print("CompleteMultipartUpload", &Completion { parts: parts.collect() })
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Deletion<'a> {
    object: Vec<Name<'a>>,
    quiet: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Name<'a> {
    key: &'a str,
}

/// The objects that are to go.
pub(super) fn delete(keys: &[String]) -> Answer<String> {
    print("Delete", &Deletion { object: keys.iter().map(|key| Name { key }).collect(), quiet: true })
}

#[derive(Deserialize)]
struct Deleted {
    #[serde(rename = "Error", default)]
    errors: Vec<NotDeleted>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NotDeleted {
    key: String,
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

/// What was not deleted, and why.
pub(super) fn not_deleted(content: &[u8]) -> Answer<Vec<(String, Fault)>> {
    let deleted: Deleted = parse(content)?;
    let errors = deleted.errors.into_iter().filter(|error| error.code != "NoSuchKey");
    // Each has a reason of its own; the request as a whole went well.
    Ok(errors.map(|error| (error.key, Fault::answer(200, &error.code, &error.message))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_page_with_keys_that_xml_cannot_carry() {
        let text = br#"<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><EncodingType>url</EncodingType>
<IsTruncated>true</IsTruncated><NextContinuationToken>n=</NextContinuationToken>
<Contents><Key>a+b%01</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified><ETag>&quot;e&quot;</ETag><Size>7</Size>
<StorageClass>STANDARD</StorageClass></Contents><CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes></ListBucketResult>"#;
        let page = page(text).unwrap();
        assert_eq!((&page.objects[0].key[..], page.objects[0].len), ("a b\u{1}", 7));
        assert_eq!(page.objects[0].etag, "\"e\"");
        assert_eq!((page.prefixes, page.next), (vec!["p/".to_owned()], Some("n=".to_owned())));
        let text = b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>";
        assert_eq!(self::page(text).unwrap_err().class, Class::Final);
        assert!(decode("%f".to_owned(), Some("url")).is_err());
        assert_eq!(decode("%f".to_owned(), None).unwrap(), "%f");
    }

    #[test]
    fn an_error_behind_a_good_status_is_an_error() {
        let text = b"  <?xml version=\"1.0\"?>\n<Error><Code>InternalError</Code><Message>We failed.</Message></Error>";
        let fault = completed(text).unwrap_err();
        assert_eq!((fault.class, &fault.message[..]), (Class::Again, "We failed"));
        assert_eq!(crate::xml::refusal(503, b"<html>busy</html>").class, Class::SlowDown);
    }

    #[test]
    fn parts_and_uploads() {
        let text = b"<ListPartsResult><IsTruncated>false</IsTruncated><Part><PartNumber>2</PartNumber><Size>5</Size>\
            <ETag>&quot;x&quot;</ETag><ChecksumCRC64NVME>AAAAAAAAAAc=</ChecksumCRC64NVME></Part></ListPartsResult>";
        let (parts, more) = parts(text).unwrap();
        let tag = Tag { etag: "\"x\"".to_owned(), crc64: Some(7), ..Tag::default() };
        assert_eq!((&parts[..], more), (&[HeldPart { number: 2, len: 5, tag: tag.clone() }][..], false));
        let xml = complete(&[tag]).unwrap();
        assert_eq!(
            xml,
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\"x\"</ETag>\
             <ChecksumCRC64NVME>AAAAAAAAAAc=</ChecksumCRC64NVME></Part></CompleteMultipartUpload>"
        );
        let xml = delete(&["a<b".to_owned()]).unwrap();
        assert_eq!(xml, "<Delete><Object><Key>a&lt;b</Key></Object><Quiet>true</Quiet></Delete>");
        let text = b"<DeleteResult><Error><Key>k</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>";
        assert_eq!(not_deleted(text).unwrap()[0].0, "k");
    }
}
