//! Where the digest of a stream is recorded: in the object's metadata, or in a sidecar object.
//!
//! A stream that fits one request carries its BLAKE3 digest as metadata `haul-blake3`. The digest of a longer stream is
//! known only after the metadata was sent; it is then in a sidecar, the object `KEY.haul`:
//!
//! ```json
//! {"haul":1,"length":12345,"blake3":"64 hexadecimal digits","etag":"\"…-3\""}
//! ```
//!
//! `etag` is the ETag of the object that the sidecar belongs to; a sidecar with another ETag is ignored.
//!
//! `length` and `blake3` describe the object. If the stream was compressed or encrypted, `encoding` says how, and
//! `plain_length` and `plain_blake3` describe the stream itself. For an encrypted stream these would allow to verify
//! guesses of its content, so they are in `sealed`, encrypted like the stream, and there is always a sidecar.

use haul_core::{Digest, Error, ErrorKind, Result, Side};
use serde::{Deserialize, Serialize};

use crate::encoding::{self, Encoding};
use crate::keys::{Identities, Recipients};
use haul_object::Client;
use haul_object::{Object, PutOptions};

/// The metadata key of the digest.
pub const DIGEST_KEY: &str = "haul-blake3";

/// The metadata keys of the length and digest of the stream itself, where it was encoded.
const PLAIN_LEN: &str = "haul-plain-length";
const PLAIN_DIGEST: &str = "haul-plain-blake3";

/// The metadata key of the `sealed` of a sidecar, on a copy of the object.
const SEALED: &str = "haul-sealed";

/// The longest such text. A store takes 2 KiB of metadata, some of which the copy needs for a file's own.
const MAX_SEALED: usize = 1024;

/// The longest sidecar, with the most recipients.
pub const MAX_LEN: usize = 64 << 10;

/// Version of the format.
const VERSION: u32 = 1;

/// The length and digest of a whole stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Length in bytes.
    pub len: u64,
    /// BLAKE3 digest.
    pub digest: Digest,
}

/// The record of the stream itself, where it was encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Plain {
    /// There is none.
    #[default]
    Unknown,
    /// Readable by everyone.
    Open(Proof),
    /// Readable by those who can decrypt the stream.
    Sealed(String),
}

/// The [`Proof`] of an encrypted stream, before it is encrypted too.
#[derive(Serialize, Deserialize)]
struct Sealed {
    length: u64,
    blake3: String,
}

impl Plain {
    /// Encrypts the proof of a stream.
    ///
    /// # Errors
    /// Those of [`Recipients::seal`].
    pub(crate) fn seal(proof: Proof, recipients: &Recipients) -> Result<Self> {
        let sealed = Sealed { length: proof.len, blake3: proof.digest.to_string() };
        // Strings and numbers always serialize.
        recipients.seal(&serde_json::to_vec(&sealed).unwrap_or_default()).map(Self::Sealed)
    }

    /// The proof, if it is recorded and can be decrypted.
    pub(crate) fn proof(&self, keys: &Identities) -> Option<Proof> {
        match self {
            Self::Unknown => None,
            Self::Open(proof) => Some(*proof),
            Self::Sealed(text) => {
                let sealed: Sealed = serde_json::from_slice(&keys.unseal(text)?).ok()?;
                Some(Proof { len: sealed.length, digest: Digest::from_hex(&sealed.blake3)? })
            }
        }
    }

    /// The metadata of an object that is written in one request.
    pub(crate) fn metadata(&self) -> Vec<(String, String)> {
        let Self::Open(proof) = self else { return Vec::new() };
        let note = |name: &str, value: String| (name.to_owned(), value);
        vec![note(PLAIN_LEN, proof.len.to_string()), note(PLAIN_DIGEST, proof.digest.to_string())]
    }
}

/// The record of an object that is written.
#[derive(Clone, Debug)]
pub(crate) struct NewRecord {
    /// The object.
    pub(crate) stored: Proof,
    /// How the stream was encoded.
    pub(crate) encoding: Encoding,
    /// The stream itself, where it was encoded.
    pub(crate) plain: Plain,
}

impl NewRecord {
    /// The digest of the stream, where the object has the stream itself as its content.
    pub(crate) fn stream_digest(&self) -> Option<Digest> {
        self.encoding.is_plain().then_some(self.stored.digest)
    }
}

/// The record of an existing object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredRecord {
    /// The object.
    pub(crate) stored: Option<Proof>,
    /// How the stream was encoded; `Err` holds an unknown encoding as text.
    pub(crate) encoding: std::result::Result<Encoding, String>,
    /// The stream itself, where it was encoded.
    pub(crate) plain: Plain,
}

#[derive(Serialize, Deserialize)]
struct Sidecar {
    haul: u32,
    length: u64,
    blake3: String,
    etag: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plain_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plain_blake3: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sealed: Option<String>,
}

/// The key of the sidecar of an object.
#[must_use]
pub fn key_of(key: &str) -> String {
    format!("{key}.haul")
}

/// The key of the object that the sidecar at `key` would be for.
#[must_use]
pub fn owner_of(key: &str) -> Option<&str> {
    key.strip_suffix(".haul")
}

/// The object that has the key of a sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SidecarObject {
    /// No object.
    Nothing,
    /// A sidecar, of this object or of an earlier one with its key.
    Sidecar,
    /// An object that haul did not write.
    Other,
}

/// Looks up the object that has the key of the sidecar of `key`.
///
/// # Errors
/// The error of the failed request.
pub fn beside(client: &Client, key: &str) -> Result<SidecarObject> {
    let name = key_of(key);
    match client.head(&name)? {
        None => return Ok(SidecarObject::Nothing),
        Some(object) if object.len > MAX_LEN as u64 => return Ok(SidecarObject::Other),
        Some(_) => {}
    }
    let content = client.read_small(&name, MAX_LEN)?;
    let is_ours = content.is_some_and(|content| read(&content).is_some());
    Ok(if is_ours { SidecarObject::Sidecar } else { SidecarObject::Other })
}

/// Checks that the sidecar of `key` may be written.
///
/// # Errors
/// `Io` if another object has its key, else the error of the failed request.
pub(crate) fn check_free(client: &Client, key: &str, side: Side) -> Result<()> {
    match beside(client, key) {
        Ok(SidecarObject::Nothing | SidecarObject::Sidecar) => Ok(()),
        Ok(SidecarObject::Other) => {
            let cause = "the digest of a long stream goes there, and something else is there already";
            let error = Error::new(ErrorKind::Io, side, "write", cause).on(client.name(&key_of(key)));
            Err(error.with_hint("move that object away, or put the stream under another name"))
        }
        // Without read permission, write unchecked.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(error),
    }
}

/// Writes the sidecar of an object with this ETag, with the storage class and encryption in `options`.
///
/// # Errors
/// The error of the request.
pub(crate) fn write(
    client: &Client,
    key: &str,
    recorded: &NewRecord,
    etag: &str,
    options: &PutOptions,
) -> Result<()> {
    let NewRecord { stored, encoding, plain } = recorded;
    let mut sidecar = Sidecar {
        haul: VERSION,
        length: stored.len,
        blake3: stored.digest.to_string(),
        etag: bare(etag).to_owned(),
        encoding: (!encoding.is_plain()).then(|| encoding.to_string()),
        plain_length: None,
        plain_blake3: None,
        sealed: None,
    };
    match plain {
        Plain::Unknown => {}
        Plain::Open(proof) => {
            sidecar.plain_length = Some(proof.len);
            sidecar.plain_blake3 = Some(proof.digest.to_string());
        }
        Plain::Sealed(text) => sidecar.sealed = Some(text.clone()),
    }
    // Strings and numbers always serialize.
    let content = serde_json::to_vec(&sidecar).unwrap_or_default();
    client.write_small(&key_of(key), content, &options_beside("application/json", options)).map(drop)
}

/// The options of an object that is written beside one with `options`.
pub(crate) fn options_beside(kind: &str, options: &PutOptions) -> PutOptions {
    PutOptions {
        headers: vec![("content-type".to_owned(), kind.to_owned())],
        storage_class: options.storage_class.clone(),
        sse: options.sse.clone(),
        sse_kms_key_id: options.sse_kms_key_id.clone(),
        ..PutOptions::default()
    }
}

/// Writes the sidecar of an object that was stored unchanged: its [`Proof`] and its ETag.
///
/// # Errors
/// The error of the request.
pub fn record(client: &Client, key: &str, stored: Proof, etag: &str, options: &PutOptions) -> Result<()> {
    let recorded = NewRecord { stored, encoding: Encoding::default(), plain: Plain::Unknown };
    write(client, key, &recorded, etag, options)
}

/// The recorded digest of an object, if there is one.
///
/// # Errors
/// The error of the failed request.
pub fn digest_of(client: &Client, object: &Object) -> Result<Option<Digest>> {
    Ok(find(client, object)?.stored.map(|proof| proof.digest))
}

/// Reads the record of an object, in its metadata or its sidecar. A sidecar of another object is ignored.
///
/// # Errors
/// The error of the failed request.
pub(crate) fn find(client: &Client, object: &Object) -> Result<StoredRecord> {
    let in_metadata = in_metadata(object);
    let whole =
        in_metadata.stored.is_some() && !matches!(in_metadata.encoding, Ok(encoding) if encoding.encrypted);
    if whole {
        return Ok(in_metadata);
    }
    let content = match client.read_small(&key_of(&object.key), MAX_LEN) {
        // Without list permission, stores deny access to an object that does not exist.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => None,
        other => other?,
    };
    let Some(found) = content.and_then(|content| parse(&content, object)) else { return Ok(in_metadata) };
    // That of a copy, which `haul copy` wrote, has only the digest of the object.
    let encoding = match in_metadata.encoding {
        Ok(encoding) if encoding.is_plain() => found.encoding,
        other => other,
    };
    let plain = if found.plain == Plain::Unknown { in_metadata.plain } else { found.plain };
    Ok(StoredRecord { encoding, plain, ..found })
}

/// The metadata keys of the record of an encoded stream. All of it that a copy needs is in the metadata.
pub const STREAM_KEYS: [&str; 4] = [encoding::KEY, PLAIN_LEN, PLAIN_DIGEST, SEALED];

/// Adds to the metadata of an encoded stream the part of its record that is in its sidecar, if that is short enough.
///
/// # Errors
/// If the store cannot be reached. A sidecar that cannot be read counts as none.
pub fn complete(client: &Client, object: &mut Object) -> Result<()> {
    if object.meta(encoding::KEY).is_none() || in_metadata(object).plain != Plain::Unknown {
        return Ok(());
    }
    let found = match find(client, object) {
        Err(error) if matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Cancelled) => {
            return Err(error);
        }
        found => found.map_or(Plain::Unknown, |found| found.plain),
    };
    let more = match found {
        Plain::Sealed(text) if text.len() <= MAX_SEALED => vec![(SEALED.to_owned(), text)],
        Plain::Sealed(_) => Vec::new(),
        open => open.metadata(),
    };
    object.metadata.retain(|(key, _)| key == encoding::KEY || !STREAM_KEYS.contains(&&key[..]));
    object.metadata.extend(more);
    Ok(())
}

/// Reads the record in the metadata of an object.
fn in_metadata(object: &Object) -> StoredRecord {
    let digest = |name: &str| object.meta(name).and_then(Digest::from_hex);
    let plain_len = object.meta(PLAIN_LEN).and_then(|text| text.parse().ok());
    StoredRecord {
        stored: digest(DIGEST_KEY).map(|digest| Proof { len: object.len, digest }),
        encoding: encoding_of(object.meta(encoding::KEY)),
        plain: match (plain_len, digest(PLAIN_DIGEST), object.meta(SEALED)) {
            (Some(len), Some(digest), _) => Plain::Open(Proof { len, digest }),
            (_, _, Some(text)) => Plain::Sealed(text.to_owned()),
            _ => Plain::Unknown,
        },
    }
}

fn encoding_of(words: Option<&str>) -> std::result::Result<Encoding, String> {
    words.map_or(Ok(Encoding::default()), |words| Encoding::parse(words).ok_or_else(|| words.to_owned()))
}

fn parse(content: &[u8], object: &Object) -> Option<StoredRecord> {
    let (found, etag) = read(content)?;
    (etag == bare(&object.etag)).then_some(found)
}

/// Parses a sidecar: the record, and the ETag of its object; `None` if it is not a sidecar.
fn read(content: &[u8]) -> Option<(StoredRecord, String)> {
    let sidecar: Sidecar = serde_json::from_slice(content).ok()?;
    let digest = Digest::from_hex(&sidecar.blake3).filter(|_| sidecar.haul == VERSION)?;
    let plain_digest = sidecar.plain_blake3.as_deref().and_then(Digest::from_hex);
    let plain = match (sidecar.plain_length, plain_digest, sidecar.sealed) {
        (Some(len), Some(digest), _) => Plain::Open(Proof { len, digest }),
        (_, _, Some(text)) => Plain::Sealed(text),
        _ => Plain::Unknown,
    };
    let found = StoredRecord {
        stored: Some(Proof { len: sidecar.length, digest }),
        encoding: encoding_of(sidecar.encoding.as_deref()),
        plain,
    };
    Some((found, sidecar.etag))
}

/// Some answers quote ETags and some do not.
pub(crate) fn bare(etag: &str) -> &str {
    etag.trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_codec::frame::FrameFormat;

    fn text(etag: &str, more: &str) -> String {
        let digest = Digest::of(b"abc");
        format!("{{\"haul\":1,\"length\":3,\"blake3\":\"{digest}\",\"etag\":\"{etag}\"{more}}}")
    }

    #[test]
    fn a_stream_that_was_encoded_has_no_digest_of_its_object_whatever_the_lengths() {
        let stored = Proof { len: 3, digest: Digest::of(b"abc") };
        let of = |encoding| NewRecord { stored, encoding, plain: Plain::Open(stored) }.stream_digest();
        assert_eq!(of(Encoding { packed: Some(FrameFormat::Zstd), ..Encoding::default() }), None);
        assert_eq!(of(Encoding::default()), Some(stored.digest));
    }

    #[test]
    fn a_sidecar_of_another_object_is_ignored() {
        let object = Object { etag: "\"e-2\"".to_owned(), len: 3, ..Object::default() };
        let proof = Proof { len: 3, digest: Digest::of(b"abc") };
        let found =
            StoredRecord { stored: Some(proof), encoding: Ok(Encoding::default()), plain: Plain::Unknown };
        assert_eq!(parse(text("e-2", "").as_bytes(), &object), Some(found.clone()));
        assert_eq!(parse(text("e-3", "").as_bytes(), &object), None);
        assert_eq!(parse(b"{}", &object), None);
        // It is still a sidecar, which may be replaced and deleted.
        assert_eq!(read(text("e-3", "").as_bytes()), Some((found, "e-3".to_owned())));
        let later = text("e-2", "").replace("\"haul\":1", "\"haul\":2");
        assert!(read(b"{}").is_none() && read(b"").is_none() && read(later.as_bytes()).is_none());
    }

    #[test]
    fn the_encoding_of_a_stream_is_recorded() {
        let plain = Proof { len: 9, digest: Digest::of(b"plain") };
        let more = format!(
            ",\"encoding\":\"zstd\",\"plain_length\":9,\"plain_blake3\":\"{}\"",
            Digest::of(b"plain")
        );
        let (found, _) = read(text("e", &more).as_bytes()).unwrap();
        assert_eq!(found.encoding.unwrap().packed, Some(FrameFormat::Zstd));
        assert_eq!(found.plain, Plain::Open(plain));
        assert_eq!(found.plain.proof(&Identities::default()), Some(plain));
        let (found, _) = read(text("e", ",\"encoding\":\"br\",\"sealed\":\"x\"").as_bytes()).unwrap();
        assert_eq!((found.encoding, found.plain), (Err("br".to_owned()), Plain::Sealed("x".to_owned())));
        let mut metadata = Plain::Open(plain).metadata();
        metadata.push((encoding::KEY.to_owned(), "lz4".to_owned()));
        let object = Object { metadata, ..Object::default() };
        assert_eq!(in_metadata(&object).plain, Plain::Open(plain));
        assert_eq!(in_metadata(&object).encoding.unwrap().packed, Some(FrameFormat::Lz4));
        assert_eq!(in_metadata(&Object::default()).encoding, Ok(Encoding::default()));
    }
}
