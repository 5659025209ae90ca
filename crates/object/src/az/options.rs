//! The options of a blob, as headers.

use crate::fault::{FailureClass, Fault};
use crate::http::HttpCall;
use crate::payload::{Payload, base64};
use crate::store::{Checksum, PutOptions, RequestResult};
use crate::url::form;

/// The prefix of haul's own metadata keys, and its form at Azure, where keys are C# identifiers: without `-`.
const OURS: (&str, &str) = ("haul-", "haul_");

/// The headers that Azure stores.
const KEPT: [&str; 5] =
    ["content-type", "content-encoding", "content-language", "content-disposition", "cache-control"];

/// Checks that blobs can be written with these options.
///
/// # Errors
/// `Unsupported`, naming the option that Azure lacks.
pub(super) fn check_options(options: &PutOptions) -> RequestResult<()> {
    let lacks = |what: String| Err(Fault::new(FailureClass::Unsupported, what));
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
    if let Some((name, _)) = options.metadata.iter().find(|(name, _)| !plain(&azure_key(name))) {
        return lacks(format!("Azure takes no note `{name}`: names have letters, digits and `_`"));
    }
    Ok(())
}

/// Converts a metadata key to its form at Azure.
pub(super) fn azure_key(name: &str) -> String {
    if name.starts_with(OURS.0) { name.replace('-', "_") } else { name.to_owned() }
}

/// Converts a metadata key from its form at Azure.
pub(super) fn haul_key(name: &str) -> String {
    if name.starts_with(OURS.1) { name.replace('_', "-") } else { name.to_owned() }
}

/// Adds the options of a blob to be written.
pub(super) fn written<'a>(mut call: HttpCall<'a>, options: &'a PutOptions) -> HttpCall<'a> {
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
        call = call.header(format!("x-ms-meta-{}", azure_key(name)), value);
    }
    if options.no_clobber { call.header("if-none-match", "*") } else { call }
}

/// Adds the checksum of the body.
pub(super) fn checked<'a>(
    call: HttpCall<'a>,
    body: &Payload,
    check: Checksum,
) -> RequestResult<HttpCall<'a>> {
    Ok(match check {
        Checksum::Md5 => call.header("content-md5", base64(&body.md5()?)),
        _ => call.header("x-ms-content-crc64", base64(&body.crc64().to_le_bytes())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_options_are_refused_and_our_metadata_keys_round_trip() {
        let pair = |name: &str| vec![(name.to_owned(), "x".to_owned())];
        let with = |metadata, headers| PutOptions { metadata, headers, ..PutOptions::default() };
        assert!(check_options(&with(pair("haul-blake3"), pair("content-type"))).is_ok());
        for bad in [
            with(pair("a-b"), Vec::new()),
            with(pair("1a"), Vec::new()),
            with(Vec::new(), pair("expires")),
            PutOptions { sse: Some("AES256".into()), ..PutOptions::default() },
        ] {
            assert_eq!(check_options(&bad).unwrap_err().class, FailureClass::Unsupported);
        }
        assert_eq!((azure_key("haul-run"), haul_key("haul_run")), ("haul_run".into(), "haul-run".into()));
        assert_eq!((azure_key("a_b"), haul_key("a_b")), ("a_b".into(), "a_b".into()));
    }
}
