//! Metadata of an object that other programs have set, and that of a stream that `haul put` encoded.
//!
//! Without it, `haul get` would return the encoded bytes. So it goes along: to another store as it is, and elsewhere as
//! extended attributes `user.object.KEY`, which become metadata again in a store.

use haul_core::entry::Xattr;
use haul_core::{ObjectKind, Preserve};
use haul_object::Object;
use haul_object::client::RUN;
use haul_streams::sidecar::is_of_stream;
use serde_bytes::ByteBuf;

/// The prefix of the attributes.
const PREFIX: &str = "user.object.";

/// The longest value. A store takes 2 KiB of metadata, about half of which haul uses itself.
const LONGEST: usize = 1024;

/// Keys and values.
pub(super) type UserMetadata = Vec<(String, String)>;

/// The user metadata of `object`, apart from the keys `own`, in order.
pub(super) fn of_object(object: &Object, own: &[&str]) -> UserMetadata {
    let is_foreign = |key: &str| !own.contains(&key) && key != RUN;
    let mut all: UserMetadata =
        object.metadata.iter().filter(|(key, _)| is_foreign(key) && is_key(key)).cloned().collect();
    all.sort();
    all
}

/// The attributes that stand for metadata.
pub(super) fn attributes(metadata: UserMetadata) -> impl Iterator<Item = Xattr> {
    let name = |key: &str| ByteBuf::from(format!("{PREFIX}{key}"));
    metadata.into_iter().map(move |(key, value)| (name(&key), ByteBuf::from(value)))
}

/// The metadata that an attribute stands for, if a store takes it.
fn of_attribute((name, value): &Xattr, kind: ObjectKind, own: &[&str]) -> Option<(String, String)> {
    let key = std::str::from_utf8(name).ok()?.strip_prefix(PREFIX)?;
    let value = std::str::from_utf8(value).ok()?;
    let is_value = value.len() <= LONGEST && value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let is_ours = own.contains(&key) || key == RUN;
    let key = if kind == ObjectKind::Az { without_hyphens(key) } else { key.to_owned() };
    (is_key(&key) && is_value && !is_ours).then(|| (key, value.to_owned()))
}

/// The key as Azure takes it, which has no `-` but in haul's own keys.
fn without_hyphens(key: &str) -> String {
    if is_of_stream(key) { key.to_owned() } else { key.replace('-', "_") }
}

/// Whether both have the same user metadata, whatever store they are in.
pub(super) fn is_same(one: &Object, other: &Object, own: &[&str]) -> bool {
    let of = |object: &Object| -> Vec<_> {
        of_object(object, own).into_iter().map(|(key, value)| (without_hyphens(&key), value)).collect()
    };
    let (mut one, mut other) = (of(one), of(other));
    one.sort();
    other.sort();
    one == other
}

/// Separates the attributes that stand for metadata from the others.
pub(super) fn split(all: Vec<Xattr>, kind: ObjectKind, own: &[&str]) -> (UserMetadata, Vec<Xattr>) {
    let (mut metadata, mut others) = (Vec::new(), Vec::new());
    for xattr in all {
        match of_attribute(&xattr, kind, own) {
            Some(pair) => metadata.push(pair),
            None => others.push(xattr),
        }
    }
    (metadata, others)
}

/// Whether an attribute is kept: that of an encoded stream always is.
pub(super) fn is_kept(preserve: &Preserve, name: &[u8]) -> bool {
    let key = std::str::from_utf8(name).ok().and_then(|name| name.strip_prefix(PREFIX));
    preserve.has_xattr(name) || key.is_some_and(is_of_stream)
}

/// Whether all stores take the key, apart from `-` at Azure.
fn is_key(key: &str) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(byte);
    key.as_bytes().first().is_some_and(u8::is_ascii_lowercase) && key.as_bytes().iter().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [&str; 1] = ["mode"];

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn metadata_becomes_attributes_and_metadata_again() {
        let metadata = vec![pair("mode", "1"), pair("haul-run", "2"), pair("b", "x y"), pair("a-b", "")];
        let object = Object { metadata, ..Object::default() };
        let foreign = of_object(&object, &OWN);
        assert_eq!(foreign, [pair("a-b", ""), pair("b", "x y")]);
        let mut xattrs: Vec<Xattr> = attributes(foreign.clone()).collect();
        assert_eq!(&xattrs[0].0[..], b"user.object.a-b");
        let plain = (ByteBuf::from("user.object"), ByteBuf::from("1"));
        xattrs.push(plain.clone());
        assert_eq!(split(xattrs.clone(), ObjectKind::S3, &OWN), (foreign, vec![plain.clone()]));
        let (at_azure, others) = split(xattrs, ObjectKind::Az, &OWN);
        assert_eq!((&at_azure[..], others.len()), (&[pair("a_b", ""), pair("b", "x y")][..], 1));
        assert!(is_same(&object, &Object { metadata: at_azure, ..Object::default() }, &OWN));
        assert!(!is_same(&object, &Object::default(), &OWN));
    }

    #[test]
    fn attributes_set_no_metadata_of_haul_and_no_bad_header() {
        for (name, value) in [
            ("user.object.mode", "100755"),
            ("user.object.haul-run", "1"),
            ("user.object.", "x"),
            ("user.object.A", "x"),
            ("user.object.a:b", "x"),
            ("user.object.a", "x\r\ny: z"),
            ("user.object.a", &"x".repeat(LONGEST + 1)),
        ] {
            let xattr = (ByteBuf::from(name), ByteBuf::from(value));
            assert_eq!(split(vec![xattr.clone()], ObjectKind::S3, &OWN), (vec![], vec![xattr]), "{name}");
        }
    }

    #[test]
    fn the_encoding_of_a_stream_is_always_kept() {
        let none = Preserve { xattrs: false, ..Preserve::default() };
        assert!(is_kept(&none, b"user.object.haul-encoding") && !is_kept(&none, b"user.object.color"));
        assert!(is_kept(&Preserve::default(), b"user.object.color"));
    }
}
