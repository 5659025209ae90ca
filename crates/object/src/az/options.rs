//! What is asked for about a blob, as headers.

use crate::fault::{Class, Fault};
use crate::http::Call;
use crate::payload::{Payload, base64};
use crate::store::{Answer, Checksum, PutOptions};
use crate::url::form;

/// How the names of haul's own notes begin. Azure takes names of notes as C# does names: without `-`.
const OURS: (&str, &str) = ("haul-", "haul_");

/// How Azure calls the headers that it keeps.
const KEPT: [&str; 5] =
    ["content-type", "content-encoding", "content-language", "content-disposition", "cache-control"];

/// Looks whether blobs can be written so.
///
/// # Errors
/// If not.
pub(super) fn takes(options: &PutOptions) -> Answer<()> {
    let lacks = |what: String| Err(Fault::new(Class::Unsupported, what));
    if options.sse.is_some() || options.sse_kms_key_id.is_some() {
        return lacks(
            "Azure encrypts all blobs, with the keys that the account names: --sse is not for it".into(),
        );
    }
    if let Some((name, _)) = options.headers.iter().find(|(name, _)| !KEPT.contains(&&name[..])) {
        return lacks(format!("Azure keeps no header `{name}`, only {}", KEPT.join(", ")));
    }
    let plain = |name: &str| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !name.starts_with(|first: char| first.is_ascii_digit())
    };
    if let Some((name, _)) = options.metadata.iter().find(|(name, _)| !plain(&noted(name))) {
        return lacks(format!("Azure takes no note `{name}`: names have letters, digits and `_`"));
    }
    Ok(())
}

/// A note's name at Azure.
pub(super) fn noted(name: &str) -> String {
    if name.starts_with(OURS.0) { name.replace('-', "_") } else { name.to_owned() }
}

/// A note's name from Azure.
pub(super) fn note_of(name: &str) -> String {
    if name.starts_with(OURS.1) { name.replace('_', "-") } else { name.to_owned() }
}

/// Adds what a blob is to be written with.
pub(super) fn written<'a>(mut call: Call<'a>, options: &'a PutOptions) -> Call<'a> {
    for (name, value) in &options.headers {
        call = call.header(format!("x-ms-blob-{name}"), value);
    }
    if let Some(class) = &options.storage_class {
        call = call.header("x-ms-access-tier", class);
    }
    if !options.tags.is_empty() {
        call = call.header("x-ms-tags", form(&options.tags));
    }
    for (name, value) in &options.metadata {
        call = call.header(format!("x-ms-meta-{}", noted(name)), value);
    }
    if options.no_clobber { call.header("if-none-match", "*") } else { call }
}

/// Adds the checksum of the body.
pub(super) fn checked<'a>(call: Call<'a>, body: &Payload, check: Checksum) -> Answer<Call<'a>> {
    Ok(match check {
        Checksum::Md5 => call.header("content-md5", base64(&body.md5()?)),
        _ => call.header("x-ms-content-crc64", base64(&body.crc64().to_le_bytes())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_azure_lacks_is_refused_and_our_notes_come_back() {
        let pair = |name: &str| vec![(name.to_owned(), "x".to_owned())];
        let with = |metadata, headers| PutOptions { metadata, headers, ..PutOptions::default() };
        assert!(takes(&with(pair("haul-blake3"), pair("content-type"))).is_ok());
        for bad in [
            with(pair("a-b"), Vec::new()),
            with(pair("1a"), Vec::new()),
            with(Vec::new(), pair("expires")),
            PutOptions { sse: Some("AES256".into()), ..PutOptions::default() },
        ] {
            assert_eq!(takes(&bad).unwrap_err().class, Class::Unsupported);
        }
        assert_eq!((noted("haul-run"), note_of("haul_run")), ("haul_run".into(), "haul-run".into()));
        assert_eq!((noted("a_b"), note_of("a_b")), ("a_b".into(), "a_b".into()));
    }
}
