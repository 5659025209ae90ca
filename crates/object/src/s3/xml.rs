//! The XML of S3 requests and answers. Answers are untrusted; an invalid one is an error of the store.

use quick_xml::escape::escape;
use serde::Serialize;

use crate::fault::{FailureClass, Fault};
use crate::payload::{base64, crc64_of};
use crate::record::{Element, records, whole};
use crate::store::{Deleted, HeldPart, ListPage, Object, RequestResult, Tag, Upload, fits};
use crate::xml::{decode, print};

/// Parses a page of objects.
pub(super) fn page(content: &[u8]) -> RequestResult<ListPage> {
    let (mut objects, mut prefixes, mut rest) = (Vec::new(), Vec::new(), Element::default());
    records(content, &["ListBucketResult"], &[], &mut |record| {
        match &record.name[..] {
            "Contents" => objects.push(Object {
                key: record.need("Key")?.to_owned(),
                len: length(&record)?,
                etag: record.text_of("ETag").to_owned(),
                modified: record.text_of("LastModified").to_owned(),
                class: record.word("StorageClass"),
                ..Object::default()
            }),
            "CommonPrefixes" => prefixes.push(record.need("Prefix")?.to_owned()),
            "EncodingType" | "IsTruncated" | "NextContinuationToken" => rest.inner.push(record),
            _ => {}
        }
        fits(objects.len() + prefixes.len(), "names")
    })?;
    let encoding = rest.word("EncodingType");
    let decode = |text: &mut String| -> RequestResult<()> {
        *text = decode(text, encoding.as_deref())?;
        Ok(())
    };
    objects.iter_mut().try_for_each(|object| decode(&mut object.key))?;
    prefixes.iter_mut().try_for_each(decode)?;
    let next = Some(rest.text_of("NextContinuationToken").to_owned()).filter(|token| !token.is_empty());
    if next.is_none() && rest.get("IsTruncated").is_some_and(Element::says_true) {
        return Err(Fault::nonsense("the listing goes on, and the store does not say where"));
    }
    Ok(ListPage { objects, prefixes, next })
}

/// The length of an object or part, which no store exceeds beyond the largest file size.
fn length(record: &Element) -> RequestResult<u64> {
    let len = record.number("Size")?;
    if i64::try_from(len).is_err() {
        return Err(Fault::nonsense(format!("it tells a length of {len}")));
    }
    Ok(len)
}

/// Parses a page of uploads, and whether there are more.
pub(super) fn uploads(content: &[u8]) -> RequestResult<(Vec<Upload>, bool)> {
    let (mut uploads, mut encoding, mut more) = (Vec::new(), None, false);
    records(content, &["ListMultipartUploadsResult"], &[], &mut |record| {
        match &record.name[..] {
            "Upload" => uploads.push(Upload {
                key: record.need("Key")?.to_owned(),
                id: record.need("UploadId")?.to_owned(),
                begun: record.text_of("Initiated").to_owned(),
            }),
            "EncodingType" => encoding = Some(record.text.trim().to_owned()),
            "IsTruncated" => more = record.says_true(),
            _ => {}
        }
        fits(uploads.len(), "uploads")
    })?;
    for upload in &mut uploads {
        upload.key = decode(&upload.key, encoding.as_deref())?;
    }
    Ok((uploads, more))
}

/// Parses a page of parts, and whether there are more.
pub(super) fn parts(content: &[u8]) -> RequestResult<(Vec<HeldPart>, bool)> {
    let (mut parts, mut more) = (Vec::new(), false);
    records(content, &["ListPartsResult"], &[], &mut |record| {
        match &record.name[..] {
            "Part" => {
                let crc64 = record.word("ChecksumCRC64NVME").as_deref().and_then(crc64_of);
                let etag = record.text_of("ETag").to_owned();
                parts.push(HeldPart {
                    number: record.number("PartNumber")?,
                    len: length(&record)?,
                    tag: Tag { etag, crc64, ..Tag::default() },
                });
            }
            "IsTruncated" => more = record.says_true(),
            _ => {}
        }
        fits(parts.len(), "parts")
    })?;
    Ok((parts, more))
}

/// Parses the id of a new upload.
pub(super) fn upload_id(content: &[u8]) -> RequestResult<String> {
    let begun = whole(content, &["InitiateMultipartUploadResult"])?;
    begun.word("UploadId").ok_or_else(|| Fault::nonsense("an upload without an id"))
}

/// Parses the ETag of a completed upload.
pub(super) fn completed(content: &[u8]) -> RequestResult<String> {
    mark(&whole(content, &["CompleteMultipartUploadResult"])?)
}

/// Parses the tag of a copy.
pub(super) fn copied(content: &[u8]) -> RequestResult<Tag> {
    let made = whole(content, &["CopyObjectResult", "CopyPartResult"])?;
    let crc64 = made.word("ChecksumCRC64NVME").as_deref().and_then(crc64_of);
    Ok(Tag { crc64, etag: mark(&made)?, ..Tag::default() })
}

fn mark(made: &Element) -> RequestResult<String> {
    made.word("ETag").ok_or_else(|| Fault::nonsense("it has no ETag"))
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

/// The request that completes an upload from parts numbered from 1.
pub(super) fn complete(tags: &[Tag]) -> RequestResult<String> {
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

/// Whether XML carries a key unchanged: XML 1.0 excludes control characters, and parsers change line ends and trim
/// spaces.
pub(super) fn is_plain(key: &str) -> bool {
    let odd = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}');
    !key.is_empty() && key.trim() == key && !key.contains(odd)
}

/// The request that deletes objects. All keys are [plain](is_plain).
pub(super) fn delete(keys: &[&str]) -> RequestResult<String> {
    let mut text = String::from("<Delete>");
    for key in keys {
        if !is_plain(key) {
            return Err(Fault::new(FailureClass::Final, "XML cannot carry the key"));
        }
        text.push_str("<Object><Key>");
        text.push_str(&escape(*key));
        text.push_str("</Key></Object>");
    }
    text.push_str("</Delete>");
    Ok(text)
}

/// The request that makes a bucket in a region.
pub(super) fn location(region: &str) -> String {
    format!(
        "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><LocationConstraint>{}\
         </LocationConstraint></CreateBucketConfiguration>",
        escape(region)
    )
}

/// Parses the result for each object.
pub(super) fn deleted(content: &[u8]) -> RequestResult<Deleted> {
    let mut deleted = Deleted::default();
    records(content, &["DeleteResult", "DeleteObjectsResult"], &[], &mut |record| {
        match &record.name[..] {
            "Deleted" => drop(deleted.gone.insert(record.need("Key")?.to_owned())),
            "Error" => {
                let key = record.need("Key")?.to_owned();
                let (code, message) = (record.text_of("Code").trim(), record.text_of("Message"));
                if code == "NoSuchKey" {
                    deleted.gone.insert(key);
                } else {
                    // Each failure has a reason of its own; the request as a whole succeeded.
                    deleted.left.insert(key, Fault::answer(200, code, message));
                }
            }
            _ => {}
        }
        fits(deleted.gone.len() + deleted.left.len(), "objects")
    })?;
    Ok(deleted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MAX_PAGE;

    #[test]
    fn a_page_has_keys_that_xml_cannot_carry() {
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
        assert_eq!(self::page(text).unwrap_err().class, FailureClass::Nonsense);
        assert!(decode("%f", Some("url")).is_err());
        assert_eq!(decode("%f", None).unwrap(), "%f");
    }

    #[test]
    fn an_error_with_a_success_status_is_an_error() {
        let text = b"  <?xml version=\"1.0\"?>\n<Error><Code>InternalError</Code><Message>We failed.</Message></Error>";
        let fault = completed(text).unwrap_err();
        assert_eq!((fault.class, &fault.message[..]), (FailureClass::Again, "We failed"));
        assert_eq!(crate::xml::refusal(503, b"<html>busy</html>").class, FailureClass::SlowDown);
    }

    #[test]
    fn parts_and_uploads_are_parsed() {
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
        let xml = delete(&["a<b"]).unwrap();
        assert_eq!(xml, "<Delete><Object><Key>a&lt;b</Key></Object></Delete>");
        let text = b"<DeleteResult><Deleted><Key>d</Key></Deleted>\
            <Error><Key>k</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>";
        let deleted = deleted(text).unwrap();
        assert!(deleted.left["k"].class == FailureClass::Denied && deleted.gone.contains("d"));
    }

    #[test]
    fn foreign_and_invalid_answers_are_refused() {
        let html = b"<html><head><title>Login</title></head></html>";
        let class = |content: &[u8]| {
            [
                page(content).map(drop),
                uploads(content).map(drop),
                parts(content).map(drop),
                upload_id(content).map(drop),
                completed(content).map(drop),
                copied(content).map(drop),
                deleted(content).map(drop),
            ]
            .map(|answer| answer.unwrap_err().class)
        };
        assert_eq!(class(html), [FailureClass::Foreign; 7]);
        assert_eq!(class(b""), [FailureClass::Foreign; 7]);
        assert_eq!(class(b"<Error><Code>SlowDown</Code></Error>"), [FailureClass::SlowDown; 7]);
        let page = |contents: &str| {
            self::page(format!("<ListBucketResult>{contents}</ListBucketResult>").as_bytes())
                .unwrap_err()
                .class
        };
        for size in ["-1", "18446744073709551615", "99999999999999999999", "1e3", ""] {
            let contents = format!("<Contents><Key>k</Key><Size>{size}</Size></Contents>");
            assert_eq!(page(&contents), FailureClass::Nonsense, "{size}");
        }
        assert_eq!(page("<Contents><Size>1</Size></Contents>"), FailureClass::Nonsense);
        assert_eq!(
            page(&"<CommonPrefixes><Prefix>p</Prefix></CommonPrefixes>".repeat(MAX_PAGE + 1)),
            FailureClass::Nonsense
        );
        for text in ["<CompleteMultipartUploadResult/>", "<CompleteMultipartUploadResult><ETag> </ETag>"] {
            assert_eq!(completed(text.as_bytes()).unwrap_err().class, FailureClass::Nonsense, "{text}");
        }
    }

    /// A key of up to twelve characters, many of which XML or URLs treat specially.
    fn key(random: &mut impl FnMut() -> u32) -> String {
        let odd =
            "\u{1}\t\n\r \u{1f}&<>\"'%+;]/.\\\u{7f}\u{85}\u{a0}\u{2028}\u{fffd}\u{fffe}\u{ffff}\u{1f600}";
        let odd: Vec<char> = odd.chars().collect();
        let len = 1 + random() % 12;
        let c = |random: &mut dyn FnMut() -> u32| match random() % 3 {
            0 => odd[random() as usize % odd.len()],
            1 => char::from(b'a' + (random() % 26) as u8),
            _ => char::from_u32(1 + random() % 0x10ffff).unwrap_or('x'),
        };
        (0..len).map(|_| c(random)).collect()
    }

    #[test]
    fn any_key_is_deleted_and_listed_unchanged() {
        let mut state = 9_u32;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state
        };
        let keys: Vec<String> = (0..20_000).map(|_| key(&mut random)).collect();
        let (plain, odd): (Vec<String>, Vec<String>) = keys.iter().cloned().partition(|key| is_plain(key));
        assert!(plain.len() > 2000 && odd.len() > 2000, "{} {}", plain.len(), odd.len());
        // Parsed by another XML reader.
        let text = delete(&plain.iter().map(|key| &key[..]).collect::<Vec<_>>()).unwrap();
        #[derive(serde::Deserialize)]
        struct DeleteObjects {
            #[serde(rename = "Object")]
            objects: Vec<DeletedKey>,
        }
        #[derive(serde::Deserialize)]
        struct DeletedKey {
            #[serde(rename = "Key")]
            key: String,
        }
        let seen: DeleteObjects = quick_xml::de::from_str(&text).unwrap();
        assert!(seen.objects.iter().map(|asked| &asked.key).eq(&plain));
        for key in &odd {
            assert!(delete(&[key]).is_err(), "{key:?}");
        }
        for chunk in keys.chunks(1000) {
            let mut text = String::from("<ListBucketResult><EncodingType>url</EncodingType>");
            for key in chunk {
                let mut encoded = String::new();
                crate::url::encode(key, true, &mut encoded);
                text.push_str(&format!("<Contents><Key>{encoded}</Key><Size>1</Size></Contents>"));
            }
            let page = page((text + "</ListBucketResult>").as_bytes()).unwrap();
            assert!(page.objects.iter().map(|object| &object.key).eq(chunk));
        }
    }
}
