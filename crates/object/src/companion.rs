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

use haul_core::{Digest, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::store::{Object, PutOptions};

/// The note that holds the digest, in the object itself.
pub(crate) const NOTE: &str = "haul-blake3";

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

/// Writes the companion of an object with the mark `etag`.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write(client: &Client, key: &str, proof: &Proof, etag: &str) -> Result<()> {
    let companion = Companion {
        haul: VERSION,
        length: proof.len,
        blake3: proof.digest.to_string(),
        etag: bare(etag).to_owned(),
    };
    // Text and numbers always become JSON.
    let content = serde_json::to_vec(&companion).unwrap_or_default();
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    let options = PutOptions { headers, ..PutOptions::default() };
    client.write_small(&key_of(key), content, &options).map(drop)
}

/// The proof of an object: its own note, or its companion. `None` where neither is, or they are of another object.
///
/// # Errors
/// If the store does not say.
pub(crate) fn find(client: &Client, object: &Object) -> Result<Option<Proof>> {
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
    let companion: Companion = serde_json::from_slice(content).ok()?;
    let is_its = companion.haul == VERSION && companion.etag == bare(&object.etag);
    let digest = Digest::from_hex(&companion.blake3).filter(|_| is_its)?;
    Some(Proof { len: companion.length, digest })
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
    }
}
