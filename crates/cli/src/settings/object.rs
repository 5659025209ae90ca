//! Settings of object stores, from the options.

use std::ffi::OsStr;
use std::time::Duration;

use haul_core::{IpFamily, Location, ObjectPlace, Pace, Result};
use haul_object::{PutOptions, StoreSettings};
use haul_streams::put::OVERHEAD;

use super::errors::usage;
use crate::args::{
    AddressArgs, GivenArgs, MemoryArgs, ObjectArgs, ReachArgs, StoreArgs, StoreEndArgs, StoreOptions,
    StoredArgs,
};
use crate::locations::{other_stores, parse_location};

/// The minimum memory for content: one part being filled and two in flight.
const LEAST: u64 = 24 << 20;

/// Headers that haul sets itself.
const RESERVED: [&str; 5] = ["host", "authorization", "content-length", "content-md5", "range"];

/// Reads the location of an object or a prefix.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if it is something else.
pub(crate) fn parse_place(text: &OsStr, given: &GivenArgs) -> Result<ObjectPlace> {
    match parse_location(text, given)? {
        Location::Object(place) => Ok(place),
        other => {
            let error = usage("use the location", "it is not in an object store").on(other.to_string());
            Err(error.with_hint("object stores are s3://, gs:// and az://"))
        }
    }
}

/// Reads the location of one object.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if it is something else.
pub(crate) fn parse_object(text: &OsStr, given: &GivenArgs) -> Result<ObjectPlace> {
    let place = parse_place(text, given)?;
    check_object(&place)?;
    Ok(place)
}

/// Checks that a place is that of one object.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if it is a bucket or a prefix.
pub(crate) fn check_object(place: &ObjectPlace) -> Result<()> {
    let cause = match &place.key[..] {
        "" => "the name of the object is missing",
        key if key.ends_with('/') => {
            "it is a prefix, as it ends with a slash, and the name of an object is needed"
        }
        _ => return Ok(()),
    };
    Err(usage("use the location", cause).on(place.to_string()))
}

/// The store settings of `put` and `get`, with these limits of the rate.
pub(crate) fn store_settings_of(reach: &ReachArgs, place: &ObjectPlace, pace: &Pace) -> StoreSettings {
    let settings = store_settings(&reach.store, reach.host.family(), &reach.given, place);
    StoreSettings { streams: reach.connections.streams.unwrap_or(0), pace: pace.clone(), ..settings }
}

/// Store settings of commands for single objects, reached over `family`.
pub(crate) fn store_settings(
    args: &StoreArgs,
    family: Option<IpFamily>,
    given: &GivenArgs,
    place: &ObjectPlace,
) -> StoreSettings {
    let shared = StoreSettings { family, ..reached(&args.address, args.timeout, "--timeout") };
    let number = usize::from(place.store.settings);
    match number.checked_sub(1).and_then(|at| other_stores(given).get(at).copied()) {
        Some(own) => with_own(&shared, own),
        None => shared,
    }
}

/// Store settings of named locations with own options, in the order of their numbers.
pub(crate) fn other_store_settings(shared: &StoreSettings, given: &GivenArgs) -> Vec<StoreSettings> {
    other_stores(given).into_iter().map(|own| with_own(shared, own)).collect()
}

/// The settings of all stores, overridden by those of a named location. Credentials of one kind replace the other kind.
fn with_own(shared: &StoreSettings, own: &StoreOptions) -> StoreSettings {
    let or = |own: &Option<String>, shared: &Option<String>| own.clone().or_else(|| shared.clone());
    let is_anonymous = own.no_sign_request == Some(true);
    StoreSettings {
        endpoint: or(&own.endpoint, &shared.endpoint),
        region: or(&own.region, &shared.region),
        profile: if is_anonymous || own.keys.is_some() { None } else { or(&own.profile, &shared.profile) },
        keys: own.keys.clone(),
        anonymous: own.no_sign_request.unwrap_or(shared.anonymous && own.profile.is_none()),
        ca_bundle: or(&own.ca_cert, &shared.ca_bundle),
        insecure_http: own.insecure_http.unwrap_or(shared.insecure_http),
        family: shared.family,
        streams: shared.streams,
        timeout: shared.timeout,
        timeout_option: shared.timeout_option,
        pace: shared.pace.clone(),
    }
}

/// Store settings of commands that also take hosts.
pub(crate) fn store_end_settings(args: &StoreEndArgs) -> StoreSettings {
    reached(&args.address, args.store_timeout, "--store-timeout")
}

fn reached(address: &AddressArgs, timeout: u32, timeout_option: &'static str) -> StoreSettings {
    StoreSettings {
        endpoint: address.endpoint.clone(),
        region: address.region.clone(),
        profile: address.profile.clone(),
        keys: None,
        anonymous: address.no_sign_request,
        ca_bundle: address.ca_cert.clone(),
        insecure_http: address.insecure_http,
        family: None,
        streams: 0,
        timeout: Duration::from_secs(timeout.into()),
        timeout_option,
        pace: Pace::default(),
    }
}

/// The attributes of all objects of a run.
pub(crate) fn stored_options(args: &StoredArgs) -> PutOptions {
    PutOptions {
        storage_class: args.storage_class.clone(),
        sse: args.sse.clone(),
        sse_kms_key_id: args.sse_kms_key_id.clone(),
        ..PutOptions::default()
    }
}

/// The memory for the content of each stream; `more` bytes of it are needed for encoding.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if it is too little.
pub(crate) fn content_memory(args: &MemoryArgs, streams: u64, more: u64) -> Result<u64> {
    let each = args.max_memory.checked_sub(OVERHEAD).map(|left| left / streams.max(1));
    each.filter(|each| *each >= LEAST + more).ok_or_else(|| {
        let least = (OVERHEAD + (LEAST + more) * streams).div_ceil(1 << 20);
        let what = match (streams, more) {
            (1, 0) => "a stream needs".to_owned(),
            (1, _) => "a compressed or encrypted stream needs".to_owned(),
            _ => format!("{streams} streams need"),
        };
        usage("use --max-memory", format!("{what} at least {least}MiB"))
    })
}

/// Checks that all stores belong to one provider if an endpoint is given.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if it does not.
pub(crate) fn check_endpoint<'a>(
    endpoint: Option<&str>,
    places: impl Iterator<Item = &'a ObjectPlace>,
) -> Result<()> {
    // A named location with an endpoint of its own does not use the one of all.
    let mut places = places.filter(|place| place.store.endpoint == 0);
    let first = places.next().map(|place| place.kind);
    if endpoint.is_some() && places.any(|place| Some(place.kind) != first) {
        let error = usage("use --endpoint", "the locations belong to different providers");
        return Err(
            error.with_hint("set AWS_ENDPOINT_URL, STORAGE_EMULATOR_HOST or AZURE_STORAGE_ENDPOINT instead")
        );
    }
    Ok(())
}

/// The attributes of an object.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if a name or value cannot be sent.
pub(crate) fn put_options(args: &ObjectArgs, no_clobber: bool) -> Result<PutOptions> {
    let lower = |pairs: &[(String, String)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect()
    };
    let (headers, metadata) = (lower(&args.header), lower(&args.metadata));
    let is_name =
        |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    for (name, value) in headers.iter().chain(&metadata) {
        if !is_name(name) || !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            let cause = "names take letters, digits, `-`, `_` and `.`; values take printable ASCII";
            return Err(usage("use the header or metadata", cause).on(name.as_bytes()));
        }
    }
    let ours = |name: &str| {
        RESERVED.contains(&name)
            || ["x-amz-", "x-goog-", "x-ms-"].iter().any(|prefix| name.starts_with(prefix))
    };
    if let Some((name, _)) = headers.iter().find(|(name, _)| ours(name)) {
        return Err(
            usage("use the header", "haul sets it itself, or has an option for it").on(name.as_bytes())
        );
    }
    if let Some((name, _)) = metadata.iter().find(|(name, _)| name.starts_with("haul-")) {
        return Err(
            usage("use the metadata", "names that begin with `haul-` are reserved").on(name.as_bytes())
        );
    }
    Ok(PutOptions { headers, metadata, tags: args.tag.clone(), no_clobber, ..stored_options(&args.stored) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::ErrorKind;

    #[test]
    fn invalid_places_and_memory_are_refused() {
        let none = GivenArgs::default();
        for text in ["dir/", "host:dir", "s3://b", "s3://b/", "s3://b/a/"] {
            assert_eq!(parse_object(OsStr::new(text), &none).unwrap_err().kind(), ErrorKind::Usage, "{text}");
        }
        assert!(parse_place(OsStr::new("s3://b/a/"), &none).is_ok());
        assert!(content_memory(&MemoryArgs { max_memory: 63 << 20 }, 1, 0).is_err());
        assert!(content_memory(&MemoryArgs { max_memory: 64 << 20 }, 1, 1).is_err());
        let default = MemoryArgs { max_memory: 128 << 20 };
        assert_eq!(content_memory(&default, 1, 0).unwrap(), 88 << 20);
        assert_eq!(content_memory(&default, 2, 0).unwrap(), 44 << 20);
        assert!(content_memory(&default, 4, 0).is_err());
    }

    #[test]
    fn reserved_headers_are_refused() {
        let none = ObjectArgs {
            stored: StoredArgs { storage_class: None, sse: None, sse_kms_key_id: None },
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
