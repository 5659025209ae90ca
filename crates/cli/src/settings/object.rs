//! Object stores, from the words about them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use haul_core::{Location, ObjectPlace, Result};
use haul_object::put::OVERHEAD;
use haul_object::{PutOptions, StoreSettings};

use super::usage;
use crate::args::{MemoryArgs, ObjectArgs, StoreArgs};

/// The least memory for content: a part in the making and two on their way.
const LEAST: u64 = 24 << 20;

/// Headers that are haul's own business.
const RESERVED: [&str; 5] = ["host", "authorization", "content-length", "content-md5", "range"];

/// Reads `NAME=VALUE` or `NAME:VALUE`.
///
/// # Errors
/// A sentence for clap.
pub(crate) fn parse_pair(text: &str, between: char) -> Result<(String, String), String> {
    let bad = || format!("`{text}` is not NAME{between}VALUE");
    let (name, value) = text.split_once(between).ok_or_else(bad)?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() { Err(bad()) } else { Ok((name.to_owned(), value.to_owned())) }
}

/// Reads the location of an object or a prefix.
///
/// # Errors
/// If it is something else.
pub(crate) fn parse_place(text: &OsStr) -> Result<ObjectPlace> {
    match Location::parse(text.as_bytes())? {
        Location::Object(place) => Ok(place),
        other => {
            let error = usage("use the location", "it is not in an object store").on(other.to_string());
            Err(error
                .with_hint("object stores are s3://BUCKET/KEY; for files and folders there is `haul copy`"))
        }
    }
}

/// Reads the location of one object.
///
/// # Errors
/// If it is something else.
pub(crate) fn parse_object(text: &OsStr) -> Result<ObjectPlace> {
    let place = parse_place(text)?;
    if place.key.is_empty() || place.key.ends_with('/') {
        return Err(usage("use the location", "the name of the object is missing").on(place.to_string()));
    }
    Ok(place)
}

/// How stores are reached.
pub(crate) fn store_settings(args: &StoreArgs) -> StoreSettings {
    StoreSettings {
        endpoint: args.endpoint.clone(),
        region: args.region.clone(),
        timeout: Duration::from_secs(args.timeout.into()),
    }
}

/// The memory for content, of which `more` bytes are needed for what is done to it.
///
/// # Errors
/// If it is too little.
pub(crate) fn content_memory(args: &MemoryArgs, more: u64) -> Result<u64> {
    let least = OVERHEAD + LEAST + more;
    if args.max_memory >= least {
        return Ok(args.max_memory - OVERHEAD);
    }
    let least = least.div_ceil(1 << 20);
    Err(usage("obey --max-memory", format!("a stream that is stored so needs {least}MiB at least")))
}

/// What an object is written with.
///
/// # Errors
/// If it cannot be sent.
pub(crate) fn put_options(args: &ObjectArgs, no_clobber: bool) -> Result<PutOptions> {
    let lower = |pairs: &[(String, String)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect()
    };
    let (headers, metadata) = (lower(&args.header), lower(&args.metadata));
    let is_name =
        |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    for (name, value) in headers.iter().chain(&metadata) {
        if !is_name(name) || !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            let cause = "a header's name has letters, digits, `-`, `_` and `.`, its value printable ASCII";
            return Err(usage("send the header or note", cause).on(name.as_bytes()));
        }
    }
    if let Some((name, _)) =
        headers.iter().find(|(name, _)| RESERVED.contains(&&name[..]) || name.starts_with("x-amz-"))
    {
        return Err(
            usage("send the header", "haul makes it itself, or has an option for it").on(name.as_bytes())
        );
    }
    if let Some((name, _)) = metadata.iter().find(|(name, _)| name.starts_with("haul-")) {
        return Err(usage("note it", "names that begin with `haul-` are haul's own").on(name.as_bytes()));
    }
    Ok(PutOptions {
        headers,
        metadata,
        tags: args.tag.clone(),
        storage_class: args.storage_class.clone(),
        sse: args.sse.clone(),
        sse_kms_key_id: args.sse_kms_key_id.clone(),
        no_clobber,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::ErrorKind;

    #[test]
    fn pairs_are_split_once() {
        assert_eq!(parse_pair("a=b=c", '='), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(parse_pair("Content-Type: x/y", ':'), Ok(("Content-Type".to_owned(), "x/y".to_owned())));
        assert!(parse_pair("a", '=').is_err() && parse_pair("=a", '=').is_err());
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for text in ["dir/", "host:dir", "s3://b", "s3://b/", "s3://b/a/"] {
            assert_eq!(parse_object(OsStr::new(text)).unwrap_err().kind(), ErrorKind::Usage, "{text}");
        }
        assert!(parse_place(OsStr::new("s3://b/a/")).is_ok());
        assert!(content_memory(&MemoryArgs { max_memory: 63 << 20 }, 0).is_err());
        assert_eq!(content_memory(&MemoryArgs { max_memory: 128 << 20 }, 0).unwrap(), 88 << 20);
        assert!(content_memory(&MemoryArgs { max_memory: 64 << 20 }, 1).is_err());
    }

    #[test]
    fn headers_that_are_haul_s_own_are_refused() {
        let none = ObjectArgs {
            storage_class: None,
            sse: None,
            sse_kms_key_id: None,
            header: Vec::new(),
            metadata: Vec::new(),
            tag: Vec::new(),
        };
        let with = |name: &str, value: &str| ObjectArgs {
            header: vec![(name.into(), value.into())],
            ..none.clone()
        };
        assert!(put_options(&with("Content-Type", "text/plain"), true).unwrap().no_clobber);
        for (name, value) in [("Host", "x"), ("x-amz-acl", "x"), ("a b", "x"), ("a", "\n")] {
            assert!(put_options(&with(name, value), false).is_err(), "{name}");
        }
        let noted = ObjectArgs { metadata: vec![("haul-blake3".into(), "x".into())], ..none.clone() };
        assert!(put_options(&noted, false).is_err());
    }
}
