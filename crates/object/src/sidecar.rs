//! Where the digest of a stream is: with the object, or beside it.
//!
//! A stream that fits one request carries its BLAKE3 digest as the note `haul-blake3`. Of a longer one the digest is
//! known only when the notes are sent already; it is then in an object of its own, `KEY.haul`:
//!
//! ```json
//! {"haul":1,"length":12345,"blake3":"64 hexadecimal digits","etag":"\"…-3\""}
//! ```
//!
//! `etag` is the store's mark of the object that it belongs to. One of another object counts as none.
//!
//! `length` and `blake3` are those of the object. If the stream was packed or encrypted before it was stored, `encoding`
//! says so, and those of the stream itself are in `plain_length` and `plain_blake3`; of an encrypted one they would tell
//! a guess from the truth, so they are in `sealed`, encrypted as the stream is, and there is always a sidecar.

use haul_core::{Digest, Error, ErrorKind, Result, Side};
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::encoding::{self, Encoding};
use crate::keys::{Identities, Recipients};
use crate::store::{Object, PutOptions};

/// The note that holds the digest, in the object itself.
pub const NOTE: &str = "haul-blake3";

/// The notes that hold the length and the digest of the stream itself, where it is stored in another form.
const PLAIN_LEN: &str = "haul-plain-length";
const PLAIN_DIGEST: &str = "haul-plain-blake3";

/// A sidecar is no longer than this, with the most recipients that there may be.
pub const MAX_LEN: usize = 64 << 10;

/// Version of the form.
const VERSION: u32 = 1;

/// What is known of a whole stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Its length in bytes.
    pub len: u64,
    /// Its BLAKE3 digest.
    pub digest: Digest,
}

/// What is recorded of the stream itself, where it is stored in another form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Plain {
    /// Nothing.
    #[default]
    Unknown,
    /// For all to read.
    Open(Proof),
    /// For those who may read the stream.
    Sealed(String),
}

/// The [`Proof`] of an encrypted stream, before it is encrypted too.
#[derive(Serialize, Deserialize)]
struct Sealed {
    length: u64,
    blake3: String,
}

impl Plain {
    /// Seals the proof of a stream.
    ///
    /// # Errors
    /// If it cannot be encrypted.
    pub(crate) fn seal(proof: Proof, recipients: &Recipients) -> Result<Self> {
        let sealed = Sealed { length: proof.len, blake3: proof.digest.to_string() };
        // Text and numbers always become JSON.
        recipients.seal(&serde_json::to_vec(&sealed).unwrap_or_default()).map(Self::Sealed)
    }

    /// The proof, if it is there and can be read.
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

    /// The notes of an object that is written in one request.
    pub(crate) fn notes(&self) -> Vec<(String, String)> {
        let Self::Open(proof) = self else { return Vec::new() };
        let note = |name: &str, value: String| (name.to_owned(), value);
        vec![note(PLAIN_LEN, proof.len.to_string()), note(PLAIN_DIGEST, proof.digest.to_string())]
    }
}

/// What is recorded of an object that haul makes.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    /// The object.
    pub(crate) stored: Proof,
    /// What was done to the stream before.
    pub(crate) encoding: Encoding,
    /// The stream, where that is something else.
    pub(crate) plain: Plain,
}

/// What is recorded of an object that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The object.
    pub(crate) stored: Option<Proof>,
    /// What was done to the stream before; the words themselves if they are not known.
    pub(crate) encoding: std::result::Result<Encoding, String>,
    /// The stream, where that is something else.
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

/// The name of the sidecar of an object.
#[must_use]
pub fn key_of(key: &str) -> String {
    format!("{key}.haul")
}

/// What is there under the name of a sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Nothing.
    Nothing,
    /// A sidecar, of this object or of an earlier one of its name.
    Sidecar,
    /// Something that haul did not write.
    Other,
}

/// What is there under the name of the sidecar of `key`.
///
/// # Errors
/// If the store does not say.
pub fn beside(client: &Client, key: &str) -> Result<Beside> {
    let name = key_of(key);
    match client.head(&name)? {
        None => return Ok(Beside::Nothing),
        Some(object) if object.len > MAX_LEN as u64 => return Ok(Beside::Other),
        Some(_) => {}
    }
    let content = client.read_small(&name, MAX_LEN)?;
    let is_ours = content.is_some_and(|content| read(&content).is_some());
    Ok(if is_ours { Beside::Sidecar } else { Beside::Other })
}

/// Looks whether a sidecar of `key` may be written.
///
/// # Errors
/// If something else is there, or the store does not say.
pub(crate) fn check_free(client: &Client, key: &str, side: Side) -> Result<()> {
    match beside(client, key) {
        Ok(Beside::Nothing | Beside::Sidecar) => Ok(()),
        Ok(Beside::Other) => {
            let cause = "the digest of a long stream goes there, and something else is there already";
            let error = Error::new(ErrorKind::Io, side, "write", cause).on(client.name(&key_of(key)));
            Err(error.with_hint("move that object away, or put the stream under another name"))
        }
        // Who may only write is not told what is there.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(error),
    }
}

/// Writes the sidecar of an object with the mark `etag`, stored and encrypted as `options` say of the object.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write(
    client: &Client,
    key: &str,
    recorded: &Recorded,
    etag: &str,
    options: &PutOptions,
) -> Result<()> {
    let Recorded { stored, encoding, plain } = recorded;
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
    // Text and numbers always become JSON.
    let content = serde_json::to_vec(&sidecar).unwrap_or_default();
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    let options = PutOptions {
        headers,
        storage_class: options.storage_class.clone(),
        sse: options.sse.clone(),
        sse_kms_key_id: options.sse_kms_key_id.clone(),
        ..PutOptions::default()
    };
    client.write_small(&key_of(key), content, &options).map(drop)
}

/// Records the digest of an object that was written as it came: [`Proof`] of it, and `etag`, the store's mark of it.
///
/// # Errors
/// If that cannot be written.
pub fn record(client: &Client, key: &str, stored: Proof, etag: &str, options: &PutOptions) -> Result<()> {
    let recorded = Recorded { stored, encoding: Encoding::default(), plain: Plain::Unknown };
    write(client, key, &recorded, etag, options)
}

/// The digest of what an object holds, if it is recorded.
///
/// # Errors
/// If the store does not say.
pub fn digest_of(client: &Client, object: &Object) -> Result<Option<Digest>> {
    Ok(find(client, object)?.stored.map(|proof| proof.digest))
}

/// What is recorded of an object: by its own notes, or by its sidecar. One of another object counts as none.
///
/// # Errors
/// If the store does not say.
pub(crate) fn find(client: &Client, object: &Object) -> Result<Found> {
    let noted = noted(object);
    let whole = noted.stored.is_some() && !matches!(noted.encoding, Ok(encoding) if encoding.encrypted);
    if whole {
        return Ok(noted);
    }
    let content = match client.read_small(&key_of(&object.key), MAX_LEN) {
        // Who may not list is told nothing of what is not there.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => None,
        other => other?,
    };
    Ok(content.and_then(|content| parse(&content, object)).unwrap_or(noted))
}

/// What the notes of an object say.
fn noted(object: &Object) -> Found {
    let digest = |name: &str| object.note(name).and_then(Digest::from_hex);
    let plain_len = object.note(PLAIN_LEN).and_then(|text| text.parse().ok());
    Found {
        stored: digest(NOTE).map(|digest| Proof { len: object.len, digest }),
        encoding: encoding_of(object.note(encoding::NOTE)),
        plain: match (plain_len, digest(PLAIN_DIGEST)) {
            (Some(len), Some(digest)) => Plain::Open(Proof { len, digest }),
            _ => Plain::Unknown,
        },
    }
}

fn encoding_of(words: Option<&str>) -> std::result::Result<Encoding, String> {
    words.map_or(Ok(Encoding::default()), |words| Encoding::parse(words).ok_or_else(|| words.to_owned()))
}

fn parse(content: &[u8], object: &Object) -> Option<Found> {
    let (found, etag) = read(content)?;
    (etag == bare(&object.etag)).then_some(found)
}

/// What a sidecar says, and the mark of its object; `None` if it is no sidecar.
fn read(content: &[u8]) -> Option<(Found, String)> {
    let sidecar: Sidecar = serde_json::from_slice(content).ok()?;
    let digest = Digest::from_hex(&sidecar.blake3).filter(|_| sidecar.haul == VERSION)?;
    let plain_digest = sidecar.plain_blake3.as_deref().and_then(Digest::from_hex);
    let plain = match (sidecar.plain_length, plain_digest, sidecar.sealed) {
        (Some(len), Some(digest), _) => Plain::Open(Proof { len, digest }),
        (_, _, Some(text)) => Plain::Sealed(text),
        _ => Plain::Unknown,
    };
    let found = Found {
        stored: Some(Proof { len: sidecar.length, digest }),
        encoding: encoding_of(sidecar.encoding.as_deref()),
        plain,
    };
    Some((found, sidecar.etag))
}

/// Some answers have the mark in quotes and some do not.
fn bare(etag: &str) -> &str {
    etag.trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_codec::frame::Format;

    fn text(etag: &str, more: &str) -> String {
        let digest = Digest::of(b"abc");
        format!("{{\"haul\":1,\"length\":3,\"blake3\":\"{digest}\",\"etag\":\"{etag}\"{more}}}")
    }

    #[test]
    fn one_of_another_object_counts_as_none() {
        let object = Object { etag: "\"e-2\"".to_owned(), len: 3, ..Object::default() };
        let proof = Proof { len: 3, digest: Digest::of(b"abc") };
        let found = Found { stored: Some(proof), encoding: Ok(Encoding::default()), plain: Plain::Unknown };
        assert_eq!(parse(text("e-2", "").as_bytes(), &object), Some(found.clone()));
        assert_eq!(parse(text("e-3", "").as_bytes(), &object), None);
        assert_eq!(parse(b"{}", &object), None);
        // It is a sidecar all the same, which may be replaced and removed.
        assert_eq!(read(text("e-3", "").as_bytes()), Some((found, "e-3".to_owned())));
        let later = text("e-2", "").replace("\"haul\":1", "\"haul\":2");
        assert!(read(b"{}").is_none() && read(b"").is_none() && read(later.as_bytes()).is_none());
    }

    #[test]
    fn what_was_done_to_the_stream_is_told() {
        let plain = Proof { len: 9, digest: Digest::of(b"plain") };
        let more = format!(
            ",\"encoding\":\"zstd\",\"plain_length\":9,\"plain_blake3\":\"{}\"",
            Digest::of(b"plain")
        );
        let (found, _) = read(text("e", &more).as_bytes()).unwrap();
        assert_eq!(found.encoding.unwrap().packed, Some(Format::Zstd));
        assert_eq!(found.plain, Plain::Open(plain));
        assert_eq!(found.plain.proof(&Identities::default()), Some(plain));
        let (found, _) = read(text("e", ",\"encoding\":\"br\",\"sealed\":\"x\"").as_bytes()).unwrap();
        assert_eq!((found.encoding, found.plain), (Err("br".to_owned()), Plain::Sealed("x".to_owned())));
        let mut metadata = Plain::Open(plain).notes();
        metadata.push((encoding::NOTE.to_owned(), "lz4".to_owned()));
        let object = Object { metadata, ..Object::default() };
        assert_eq!(noted(&object).plain, Plain::Open(plain));
        assert_eq!(noted(&object).encoding.unwrap().packed, Some(Format::Lz4));
        assert_eq!(noted(&Object::default()).encoding, Ok(Encoding::default()));
    }
}
