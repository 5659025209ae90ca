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

use haul_core::{Digest, Error, ErrorKind, Result, Side};
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::store::{Object, PutOptions};

/// The note that holds the digest, in the object itself.
pub const NOTE: &str = "haul-blake3";

/// A companion is no longer than this.
const MAX_LEN: usize = 4096;

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

#[derive(Serialize, Deserialize)]
struct Companion {
    haul: u32,
    length: u64,
    blake3: String,
    etag: String,
}

/// The name of the companion of an object.
#[must_use]
pub fn key_of(key: &str) -> String {
    format!("{key}.haul")
}

/// What is there under the name of a companion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Nothing.
    Nothing,
    /// A companion, of this object or of an earlier one of its name.
    Companion,
    /// Something that haul did not write.
    Other,
}

/// What is there under the name of the companion of `key`.
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
    Ok(if is_ours { Beside::Companion } else { Beside::Other })
}

/// Looks whether a companion of `key` may be written.
///
/// # Errors
/// If something else is there, or the store does not say.
pub(crate) fn check_free(client: &Client, key: &str, side: Side) -> Result<()> {
    match beside(client, key) {
        Ok(Beside::Nothing | Beside::Companion) => Ok(()),
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

/// Writes the companion of an object with the mark `etag`, stored and encrypted as `options` say of the object.
///
/// # Errors
/// If it cannot be written.
pub fn write(client: &Client, key: &str, proof: &Proof, etag: &str, options: &PutOptions) -> Result<()> {
    let companion = Companion {
        haul: VERSION,
        length: proof.len,
        blake3: proof.digest.to_string(),
        etag: bare(etag).to_owned(),
    };
    // Text and numbers always become JSON.
    let content = serde_json::to_vec(&companion).unwrap_or_default();
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

/// The proof of an object: its own note, or its companion. `None` where neither is, or they are of another object.
///
/// # Errors
/// If the store does not say.
pub fn find(client: &Client, object: &Object) -> Result<Option<Proof>> {
    if let Some(digest) = object.note(NOTE).and_then(Digest::from_hex) {
        return Ok(Some(Proof { len: object.len, digest }));
    }
    let content = match client.read_small(&key_of(&object.key), MAX_LEN) {
        // Who may not list is told nothing of what is not there.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => None,
        other => other?,
    };
    Ok(content.and_then(|content| parse(&content, object)))
}

fn parse(content: &[u8], object: &Object) -> Option<Proof> {
    let (proof, etag) = read(content)?;
    (etag == bare(&object.etag)).then_some(proof)
}

/// What a companion says, and the mark of its object; `None` if it is no companion.
fn read(content: &[u8]) -> Option<(Proof, String)> {
    let companion: Companion = serde_json::from_slice(content).ok()?;
    let digest = Digest::from_hex(&companion.blake3).filter(|_| companion.haul == VERSION)?;
    Some((Proof { len: companion.length, digest }, companion.etag))
}

/// Some answers have the mark in quotes and some do not.
fn bare(etag: &str) -> &str {
    etag.trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_another_object_counts_as_none() {
        let object = Object { etag: "\"e-2\"".to_owned(), len: 3, ..Object::default() };
        let text = |etag: &str| {
            let digest = Digest::of(b"abc");
            format!("{{\"haul\":1,\"length\":3,\"blake3\":\"{digest}\",\"etag\":\"{etag}\"}}")
        };
        let proof = Proof { len: 3, digest: Digest::of(b"abc") };
        assert_eq!(parse(text("e-2").as_bytes(), &object), Some(proof));
        assert_eq!(parse(text("e-3").as_bytes(), &object), None);
        assert_eq!(parse(b"{}", &object), None);
        // It is a companion all the same, which may be replaced and removed.
        assert_eq!(read(text("e-3").as_bytes()), Some((proof, "e-3".to_owned())));
        let later = text("e-2").replace("\"haul\":1", "\"haul\":2");
        assert!(read(b"{}").is_none() && read(b"").is_none() && read(later.as_bytes()).is_none());
    }
}
