//! Locations on the command line.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_core::{Error, ErrorKind, Location, ObjectKind, ObjectPlace, Result, Side, StoreNumber};

use crate::args::{GivenArgs, NamedLocation, StoreOptions};

/// Parses a location, perhaps a named one.
///
/// # Errors
/// [`ErrorKind::Usage`] if haul does not support it, or the settings have no location of this name.
pub(crate) fn parse_location(text: &OsStr, given: &GivenArgs) -> Result<Location> {
    let text = text.as_bytes();
    let Some((name, below)) = split_name(text) else {
        let location = Location::parse(text)?;
        return match &location {
            Location::Local(path) if is_of_mc(path) => {
                let cause = "mc takes it as a place in the store of that name, and haul as a path here";
                let error = Error::new(ErrorKind::Usage, Side::Local, "use the location", cause).on(text);
                let text = haul_core::path::printable(text);
                Err(error.with_hint(format!("write @{text} for the store, and ./{text} for a path here")))
            }
            _ => Ok(location),
        };
    };
    let named = given.get().locations.iter().find(|named| named.name.as_bytes() == name);
    let Some(named) = named else {
        let cause = "the settings have no location of this name";
        let error = Error::new(ErrorKind::Usage, Side::Local, "use the location", cause).on(text);
        return Err(error.with_hint(
            "`haul config show` lists the named locations; for a file or directory here begin with ./",
        ));
    };
    let mut location = Location::parse(&joined(named.location.as_bytes(), below))?;
    if let Location::Object(place) = &mut location {
        place.store = number(named, given);
    }
    Ok(location)
}

/// Parses a source of `--relative`. In a key, `/./` ends the part of the path that is not kept, as in other paths; else no
/// key contains it.
///
/// # Errors
/// Those of [`parse_location`].
pub(crate) fn parse_relative(text: &OsStr, given: &GivenArgs) -> Result<Location> {
    let bytes = text.as_bytes();
    let Some(at) = bytes.windows(3).position(|part| part == b"/./") else {
        return parse_location(text, given);
    };
    let kept = &bytes[at + 3..];
    let unmarked = [&bytes[..=at], kept].concat();
    let (Ok(Location::Object(place)), Ok(kept)) =
        (parse_location(OsStr::from_bytes(&unmarked), given), std::str::from_utf8(kept))
    else {
        return parse_location(text, given);
    };
    let key = match place.key.strip_suffix(kept) {
        // The whole key is kept anyway.
        Some("") => kept.to_owned(),
        Some(dropped) => format!("{dropped}./{kept}"),
        // The mark is in no key.
        None => return parse_location(text, given),
    };
    Ok(Location::Object(ObjectPlace { key, ..place }))
}

/// Parses a location, or a store without a bucket (`s3://`), which is an [`ObjectPlace`] with an empty one.
///
/// # Errors
/// Those of [`parse_location`].
pub(crate) fn parse_location_or_store(text: &OsStr, given: &GivenArgs) -> Result<Location> {
    let store = |text: &[u8]| {
        let text = std::str::from_utf8(text).ok()?;
        let (scheme, _) = text.split_once("://").filter(|(_, rest)| matches!(*rest, "" | "/"))?;
        let kind = ObjectKind::of_scheme(scheme)?;
        Some(ObjectPlace { kind, bucket: String::new(), key: String::new(), store: StoreNumber::default() })
    };
    let named = split_name(text.as_bytes()).and_then(|(name, below)| {
        let named = given.get().locations.iter().find(|named| named.name.as_bytes() == name)?;
        let place = store(&joined(named.location.as_bytes(), below))?;
        Some(ObjectPlace { store: number(named, given), ..place })
    });
    match named.or_else(|| store(text.as_bytes())) {
        Some(place) => Ok(Location::Object(place)),
        None => parse_location(text, given),
    }
}

/// Whether a path here is probably a location as mc has it: it begins with the name of an alias of mc, and no entry has
/// this name.
fn is_of_mc(path: &[u8]) -> bool {
    let first = path.split(|byte| *byte == b'/').next().unwrap_or_default();
    let is_name = !first.is_empty() && first.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let first = String::from_utf8_lossy(first);
    is_name
        && std::env::var_os(format!("MC_HOST_{first}")).is_some()
        && Path::new(&*first).symlink_metadata().is_err()
}

/// Parses a location in a file system.
///
/// # Errors
/// [`ErrorKind::Usage`] if it is in an object store, or haul does not support it.
pub(crate) fn parse_file_location(text: &OsStr, given: &GivenArgs) -> Result<Location> {
    match parse_location(text, given)? {
        Location::Object(place) => {
            let cause = "it is in an object store, but this command is for files and directories";
            let error =
                Error::new(ErrorKind::Usage, Side::Local, "use the location", cause).on(place.to_string());
            Err(error.with_hint("copy, sync, verify and hash support object stores"))
        }
        other => Ok(other),
    }
}

/// The name of `@NAME/PATH` and the path behind it, with its slash; `None` if it is no named location. `@` alone is the
/// name of a file, as of the subvolumes of Btrfs.
pub(crate) fn split_name(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = text.strip_prefix(b"@")?;
    let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    // `@host:path` is a host without a user.
    let (name, below) = rest.split_at(end);
    (!name.is_empty() && !name.contains(&b':')).then_some((name, below))
}

/// A location and a path below it, which begins with a slash unless it is empty. The path `HOST:` is the home directory,
/// and `HOST:/PATH` would be another one.
fn joined(location: &[u8], below: &[u8]) -> Vec<u8> {
    let is_open = location.ends_with(b"/") || location.ends_with(b":");
    let below = if is_open { below.strip_prefix(b"/").unwrap_or(below) } else { below };
    [location, below].concat()
}

/// The options of the stores of named locations, without repetition.
pub(crate) fn other_stores(given: &GivenArgs) -> Vec<&StoreOptions> {
    let mut others: Vec<&StoreOptions> = Vec::new();
    for NamedLocation { store, .. } in &given.get().locations {
        if *store != StoreOptions::default() && !others.contains(&store) {
            others.push(store);
        }
    }
    others
}

fn number(named: &NamedLocation, given: &GivenArgs) -> StoreNumber {
    let others = other_stores(given);
    let endpoints: Vec<&String> = others.iter().filter_map(|store| store.endpoint.as_ref()).collect();
    let of = |at: Option<usize>| at.and_then(|at| u16::try_from(at + 1).ok()).unwrap_or_default();
    StoreNumber {
        settings: of(others.iter().position(|other| **other == named.store)),
        endpoint: of(named.store.endpoint.as_ref().and_then(|at| endpoints.iter().position(|o| *o == at))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_paths() {
        let split =
            |text: &str| split_name(text.as_bytes()).map(|(name, below)| (name.to_vec(), below.to_vec()));
        assert_eq!(split("@nas"), Some((b"nas".to_vec(), Vec::new())));
        assert_eq!(split("@nas/a/b"), Some((b"nas".to_vec(), b"/a/b".to_vec())));
        for text in ["@", "@/", "@/x", "./@nas", "nas", "me@nas:/x", "@nas:/x"] {
            assert_eq!(split(text), None, "{text}");
        }
    }

    #[test]
    fn a_path_follows_its_location() {
        let of = |location: &str, below: &str| {
            String::from_utf8(joined(location.as_bytes(), below.as_bytes())).unwrap()
        };
        assert_eq!(of("s3://bucket", "/a"), "s3://bucket/a");
        assert_eq!(of("s3://bucket/p/", "/a/"), "s3://bucket/p/a/");
        assert_eq!(of("db1:", "/a"), "db1:a");
        assert_eq!(of("db1:", ""), "db1:");
        assert_eq!(of("db1:/srv", "/"), "db1:/srv/");
        assert_eq!(of("/srv/", "/"), "/srv/");
    }

    #[test]
    fn stores_are_told_apart_by_their_options() {
        let named = |name: &str, endpoint: Option<&str>, profile: Option<&str>| NamedLocation {
            name: name.to_owned(),
            location: "s3://backups/".to_owned(),
            store: StoreOptions {
                endpoint: endpoint.map(str::to_owned),
                profile: profile.map(str::to_owned),
                ..StoreOptions::default()
            },
        };
        let locations = vec![
            named("plain", None, None),
            named("a", Some("http://a"), None),
            named("a2", Some("http://a"), Some("x")),
            named("again", Some("http://a"), None),
            named("b", Some("http://b"), None),
        ];
        let given = GivenArgs::new(crate::args::Given { locations, ..Default::default() });
        let place = |text: &str| match parse_location(OsStr::new(text), &given) {
            Ok(Location::Object(place)) => place,
            other => panic!("{other:?}"),
        };
        assert_eq!(place("@plain").store, StoreNumber::default());
        assert!(place("@a/x").is_reached_with(&place("@again/y")));
        assert!(place("@a").is_beside(&place("@a2")) && !place("@a").is_reached_with(&place("@a2")));
        assert!(!place("@a").is_beside(&place("@b")) && !place("@a").is_beside(&place("@plain")));
        assert_eq!(other_stores(&given).len(), 3);
        assert!(parse_location(OsStr::new("@nothing"), &given).is_err());
    }

    #[test]
    fn a_key_may_tell_the_part_that_is_kept() {
        let given = GivenArgs::default();
        let shown = |text: &str| parse_relative(OsStr::new(text), &given).map(|at| at.to_string());
        for (text, expected) in [
            ("s3://b/a/./b/c", "s3://b/a/./b/c"),
            ("s3://b/./a", "s3://b/a"),
            ("s3://b/a/./", "s3://b/a/./"),
            ("s3://b/a/b", "s3://b/a/b"),
            ("a/./b", "a/./b"),
            ("h:a/./b/./c", "h:a/./b/./c"),
        ] {
            assert_eq!(shown(text).unwrap(), expected, "{text}");
        }
        for text in ["s3://b/a/./b/./c", "s3://b/../a/./b", "s3://./b", "s3:/b/./a"] {
            assert!(shown(text).is_err(), "{text}");
        }
        assert!(parse_location(OsStr::new("s3://b/a/./b"), &given).is_err());
    }

    #[test]
    fn a_store_needs_no_bucket_to_list_them() {
        let of_mc = NamedLocation {
            name: "nas".to_owned(),
            location: "s3://".to_owned(),
            store: StoreOptions { endpoint: Some("http://a".to_owned()), ..StoreOptions::default() },
        };
        let given = GivenArgs::new(crate::args::Given { locations: vec![of_mc], ..Default::default() });
        let bucket = |text: &str| match parse_location_or_store(OsStr::new(text), &given) {
            Ok(Location::Object(place)) => Some((place.bucket, place.store.settings)),
            _ => None,
        };
        for (text, settings) in [("s3://", 0), ("gs:///", 0), ("az://", 0), ("@nas", 1), ("@nas/", 1)] {
            assert_eq!(bucket(text), Some((String::new(), settings)), "{text}");
        }
        assert_eq!(bucket("s3://b"), Some(("b".to_owned(), 0)));
        assert_eq!(bucket("@nas/b/"), Some(("b".to_owned(), 1)));
        for text in ["s3:////", "s3:///x", "x://", "ssh://", "s3:/"] {
            assert_eq!(bucket(text), None, "{text}");
        }
        assert!(parse_location(OsStr::new("s3://"), &given).is_err());
    }
}
