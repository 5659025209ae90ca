//! The answers of a store, as <https://docs.aws.amazon.com/AmazonS3/latest/API/> specifies them.

use std::fmt::Write;
use std::sync::Arc;

use super::super::http::HttpRequest;
use super::habits::Habits;
use super::held::{HeldObject, HeldUpload, ReceivedContent, crc64_text, md5_text};
use super::list::list;
use super::reply::StoreAnswer;
use super::state::{SharedStore, StoreData};

/// The answer to a request.
pub(super) fn to(shared: &SharedStore, request: &HttpRequest, content: ReceivedContent) -> StoreAnswer {
    let habits = shared.habits;
    let mut state = shared.lock();
    let parameter = |name: &str| {
        let pairs = request.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(other, _)| *other == name).map(|(_, value)| value.to_owned())
    };
    let upload = parameter("uploadId");
    let of_bucket = request.path.trim_matches('/').split('/').count() < 2;
    match (&request.method[..], upload) {
        ("PUT", None) if request.header("x-amz-copy-source").is_some() => copy(&mut state, request, habits),
        ("PUT", None) => put(&mut state, request, content, habits),
        ("PUT", Some(id)) => put_part(&mut state, request, &id, content, habits),
        ("POST", None) if request.has("uploads") => begin(&mut state, request),
        ("POST", None) if request.has("delete") => delete(&mut state, request, &content),
        ("POST", Some(id)) => complete(&mut state, request, &id, &content, habits),
        ("DELETE", Some(id)) => match state.uploads.remove(&id) {
            Some(_) => StoreAnswer::new(204),
            None => StoreAnswer::refusal(404, "NoSuchUpload"),
        },
        ("DELETE", None) => {
            state.objects.remove(&request.path);
            StoreAnswer::new(204)
        }
        ("GET", Some(id)) => parts(&state, &id, habits),
        ("GET", None) if request.has("uploads") => uploads(&state, request),
        ("GET", None) if of_bucket => list(&state, request, habits),
        ("GET" | "HEAD", None) => get(&state, request, habits),
        _ => StoreAnswer::refusal(501, "NotImplemented"),
    }
}

/// The refusal of content that does not match the checksums of its request.
fn damaged(request: &HttpRequest, content: &ReceivedContent, habits: Habits) -> Option<StoreAnswer> {
    let differs = |name: &str, found: String| request.header(name).is_some_and(|expected| expected != found);
    let crc64 = habits.crc64 && differs("x-amz-checksum-crc64nvme", crc64_text(content.crc64));
    let bad = crc64 || differs("content-md5", md5_text(content.md5));
    bad.then(|| StoreAnswer::refusal(400, "BadDigest"))
}

/// An answer that content has come.
fn taken(content: &ReceivedContent, habits: Habits) -> StoreAnswer {
    let answer = StoreAnswer::new(200).header("ETag", format!("\"{}\"", content.etag(habits)));
    if !habits.crc64 {
        return answer;
    }
    answer.header("x-amz-checksum-crc64nvme", crc64_text(content.crc64))
}

fn occupied(state: &StoreData, request: &HttpRequest) -> bool {
    request.header("if-none-match") == Some("*") && state.objects.contains_key(&request.path)
}

fn notes(request: &HttpRequest) -> Vec<(String, String)> {
    let is_note = |name: &str| name.starts_with("x-amz-meta-") || name == "content-type";
    request.headers.iter().filter(|(name, _)| is_note(name)).cloned().collect()
}

fn put(
    state: &mut StoreData,
    request: &HttpRequest,
    content: ReceivedContent,
    habits: Habits,
) -> StoreAnswer {
    if let Some(refusal) = damaged(request, &content, habits) {
        return refusal;
    }
    if occupied(state, request) {
        return StoreAnswer::refusal(412, "PreconditionFailed");
    }
    let answer = taken(&content, habits);
    state.objects.insert(request.path.clone(), HeldObject::whole(content, notes(request)));
    answer
}

/// Copies an object within the store, with metadata of its own if the request replaces it.
fn copy(state: &mut StoreData, request: &HttpRequest, habits: Habits) -> StoreAnswer {
    let from = request.header("x-amz-copy-source").unwrap_or_default();
    let from = format!("/{}", from.trim_start_matches('/'));
    let Some(object) = state.objects.get(&from) else { return StoreAnswer::refusal(404, "NoSuchKey") };
    let etag = object.etag(habits);
    let expected = request.header("x-amz-copy-source-if-match");
    if expected.is_some_and(|expected| expected.trim_matches('"') != etag) {
        return StoreAnswer::refusal(412, "PreconditionFailed");
    }
    let replaces = request.header("x-amz-metadata-directive") == Some("REPLACE");
    let headers = if replaces { notes(request) } else { object.headers.clone() };
    let copied = HeldObject::whole(object.content.clone(), headers);
    let etag = copied.etag(habits);
    state.objects.insert(request.path.clone(), copied);
    StoreAnswer::xml("CopyObjectResult", &format!("<ETag>&quot;{etag}&quot;</ETag>"))
}

/// Removes several objects, and reads their names as every reader of XML does: a line end is a line feed, and control
/// characters are none of its characters.
fn delete(state: &mut StoreData, request: &HttpRequest, content: &ReceivedContent) -> StoreAnswer {
    let text = content.bytes.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let text = text.unwrap_or_default().replace("\r\n", "\n").replace('\r', "\n");
    if text.contains(|c: char| c.is_ascii_control() && c != '\n' && c != '\t') {
        return StoreAnswer::refusal(400, "MalformedXML");
    }
    let mut answer = String::new();
    for key in text.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next()) {
        let plain =
            [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&#13;", "\r"), ("&amp;", "&")];
        let plain = plain.iter().fold(key.to_owned(), |text, (escaped, c)| text.replace(escaped, c));
        let mut path = format!("{}/", request.path.trim_end_matches('/'));
        for byte in plain.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
                path.push(char::from(byte));
            } else {
                let _ = write!(path, "%{byte:02X}");
            }
        }
        state.objects.remove(&path);
        let _ = write!(answer, "<Deleted><Key>{key}</Key></Deleted>");
    }
    StoreAnswer::xml("DeleteResult", &answer)
}

fn begin(state: &mut StoreData, request: &HttpRequest) -> StoreAnswer {
    state.begun += 1;
    let id = format!("upload-{}", state.begun);
    let upload = HeldUpload {
        path: request.path.clone(),
        headers: notes(request),
        parts: std::collections::BTreeMap::new(),
    };
    state.uploads.insert(id.clone(), upload);
    StoreAnswer::xml("InitiateMultipartUploadResult", &format!("<UploadId>{id}</UploadId>"))
}

fn put_part(
    state: &mut StoreData,
    request: &HttpRequest,
    id: &str,
    content: ReceivedContent,
    habits: Habits,
) -> StoreAnswer {
    let Some(upload) = state.uploads.get_mut(id) else { return StoreAnswer::refusal(404, "NoSuchUpload") };
    let Some(number) = request.part().filter(|number| (1..=habits.max_parts).contains(number)) else {
        return StoreAnswer::refusal(400, "InvalidArgument");
    };
    if let Some(refusal) = damaged(request, &content, habits) {
        return refusal;
    }
    let answer = taken(&content, habits);
    upload.parts.insert(number, content);
    answer
}

fn complete(
    state: &mut StoreData,
    request: &HttpRequest,
    id: &str,
    content: &ReceivedContent,
    habits: Habits,
) -> StoreAnswer {
    let Some(upload) = state.uploads.get(id) else { return StoreAnswer::refusal(404, "NoSuchUpload") };
    if occupied(state, request) {
        return StoreAnswer::refusal(412, "PreconditionFailed");
    }
    let text = content.bytes.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let text = text.unwrap_or_default();
    let parts = text.split("<Part>").skip(1).filter_map(|part| {
        let etag = between(part, "ETag")?.replace("&quot;", "\"");
        Some((between(part, "PartNumber")?.parse().ok()?, etag.trim_matches('"').to_owned()))
    });
    let object = match upload.complete(&parts.collect::<Vec<_>>(), habits) {
        Ok(object) => object,
        Err(code) => return StoreAnswer::refusal(400, code),
    };
    let expected = request.header("x-amz-checksum-crc64nvme").filter(|_| habits.crc64);
    if expected.is_some_and(|expected| expected != crc64_text(object.content.crc64)) {
        return StoreAnswer::refusal(400, "BadDigest");
    }
    let etag = object.etag(habits);
    let path = upload.path.clone();
    state.objects.insert(path, object);
    state.uploads.remove(id);
    StoreAnswer::xml("CompleteMultipartUploadResult", &format!("<ETag>&quot;{etag}&quot;</ETag>"))
}

fn parts(state: &StoreData, id: &str, habits: Habits) -> StoreAnswer {
    let Some(upload) = state.uploads.get(id) else { return StoreAnswer::refusal(404, "NoSuchUpload") };
    let mut text = "<IsTruncated>false</IsTruncated>".to_owned();
    for (number, part) in &upload.parts {
        let checksum = format!("<ChecksumCRC64NVME>{}</ChecksumCRC64NVME>", crc64_text(part.crc64));
        let checksum = if habits.crc64 { &checksum[..] } else { "" };
        let (len, etag) = (part.len, part.etag(habits));
        let _ = write!(
            text,
            "<Part><PartNumber>{number}</PartNumber><Size>{len}</Size><ETag>&quot;{etag}&quot;</ETag>{checksum}</Part>"
        );
    }
    StoreAnswer::xml("ListPartsResult", &text)
}

fn uploads(state: &StoreData, request: &HttpRequest) -> StoreAnswer {
    let bucket = format!("{}/", request.path.trim_end_matches('/'));
    let mut text = String::new();
    for (id, upload) in &state.uploads {
        if let Some(key) = upload.path.strip_prefix(&bucket) {
            let _ = write!(text, "<Upload><Key>{key}</Key><UploadId>{id}</UploadId></Upload>");
        }
    }
    StoreAnswer::xml("ListMultipartUploadsResult", &text)
}

fn get(state: &StoreData, request: &HttpRequest, habits: Habits) -> StoreAnswer {
    let Some(object) = state.objects.get(&request.path) else {
        return StoreAnswer::refusal(404, "NoSuchKey");
    };
    let etag = format!("\"{}\"", object.etag(habits));
    if request.header("if-match").is_some_and(|wanted| wanted != etag) {
        return StoreAnswer::refusal(412, "PreconditionFailed");
    }
    let len = object.content.len;
    let mut answer = StoreAnswer::new(200).header("ETag", etag);
    answer.headers.extend(object.headers.iter().cloned());
    if habits.crc64 {
        let checksum = crc64_text(object.content.crc64);
        answer =
            answer.header("x-amz-checksum-crc64nvme", checksum).header("x-amz-checksum-type", "FULL_OBJECT");
    }
    if request.method == "HEAD" {
        answer.len = Some(len);
        return answer;
    }
    let Some(bytes) = object.content.bytes.as_ref().map(Arc::clone) else {
        return StoreAnswer::refusal(500, "InternalError");
    };
    let range = request.header("range").and_then(|text| text.strip_prefix("bytes=")?.split_once('-'));
    let Some((start, end)) = range else {
        answer.content = bytes.to_vec();
        return answer;
    };
    let start = start.parse().unwrap_or(0_usize);
    let end = end.parse().map_or(bytes.len(), |end: usize| (end + 1).min(bytes.len()));
    let Some(content) = bytes.get(start..end) else { return StoreAnswer::refusal(416, "InvalidRange") };
    answer.content = content.to_vec();
    answer.status = 206;
    answer.header("Content-Range", format!("bytes {start}-{}/{len}", end.saturating_sub(1)))
}

fn between<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{tag}>"))?;
    rest.split_once(&format!("</{tag}>")).map(|(value, _)| value)
}
