//! The index of the members of a stream, in the object or file `NAME.haul-index`.
//!
//! It begins with `HAULIDX1`, the length of the head (two bytes, little-endian), and the head: the ETag and the stored
//! length, serialized with postcard. The records of [`haul_members`] follow, encrypted if the stream is. An index of
//! another object is ignored.

use haul_core::{Error, ErrorKind, RelPath, Result, Side};
use haul_members::{MAX_PACKED, MemberIndex};
use haul_object::{Client, Object, PutOptions};
use serde::{Deserialize, Serialize};

use crate::keys::Identities;
use crate::sidecar::{bare, options_beside};

/// How an index begins; the last byte is the version.
const MAGIC: &[u8] = b"HAULIDX1";

/// The suffix of the name of an index.
pub const SUFFIX: &str = ".haul-index";

/// The longest index.
pub(crate) const MAX_LEN: usize = MAX_PACKED + (1 << 20);

/// A stream of up to so many bytes has no index: it is read whole.
pub const SHORT: u64 = 8 << 20;

/// The object or file that an index belongs to.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IndexFile {
    /// The ETag of the object, without quotes, or the digest of those of several; empty for a file.
    pub(crate) etag: String,
    /// The stored length.
    pub(crate) len: u64,
}

impl IndexFile {
    /// The bytes of the index with these records.
    pub(crate) fn bytes(&self, records: &[u8]) -> Vec<u8> {
        // Strings and numbers always serialize.
        let head = postcard::to_stdvec(self).unwrap_or_default();
        let len = u16::try_from(head.len()).unwrap_or_default();
        [MAGIC, &len.to_le_bytes(), &head, records].concat()
    }

    /// The head and the records.
    fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (len, rest) = rest.split_first_chunk::<2>()?;
        let (head, records) = rest.split_at_checked(u16::from_le_bytes(*len).into())?;
        Some((postcard::from_bytes(head).ok()?, records))
    }
}

/// The key of the index of an object.
#[must_use]
pub fn key_of(key: &str) -> String {
    format!("{key}{SUFFIX}")
}

/// The path of the index of a file.
///
/// # Errors
/// [`ErrorKind::Usage`] if the path is too long.
pub(crate) fn path_of(path: &RelPath) -> Result<RelPath> {
    RelPath::new(&[path.as_bytes(), SUFFIX.as_bytes()].concat())
        .map_err(|bad| Error::new(ErrorKind::Usage, Side::Destination, "name the index", bad.to_string()))
}

/// Writes the index of an object, with the storage class and encryption in `options`.
pub(crate) fn write(client: &Client, key: &str, bytes: Vec<u8>, options: &PutOptions) -> Result<()> {
    client.write_small(&key_of(key), bytes, &options_beside("application/octet-stream", options)).map(drop)
}

/// Reads the index of an object; `Err` in the result says why it cannot be used.
///
/// # Errors
/// The error of the failed request.
pub(crate) fn find(
    client: &Client,
    object: &Object,
    keys: &Identities,
) -> Result<Option<std::result::Result<MemberIndex, String>>> {
    let belongs_to = IndexFile { etag: bare(&object.etag).to_owned(), len: object.len };
    find_of(client, &object.key, &belongs_to, keys)
}

/// Reads the index beside `key` if it is of this object or set of objects; `Err` in the result says why it cannot be
/// used.
///
/// # Errors
/// The error of the failed request.
pub(crate) fn find_of(
    client: &Client,
    key: &str,
    belongs_to: &IndexFile,
    keys: &Identities,
) -> Result<Option<std::result::Result<MemberIndex, String>>> {
    let content = match client.read_small(&key_of(key), MAX_LEN) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => None,
        other => other?,
    };
    Ok(content.map(|content| read(&content, belongs_to, keys)))
}

/// Reads the index of this object or file.
///
/// # Errors
/// Why it cannot be used.
pub(crate) fn read(
    content: &[u8],
    belongs_to: &IndexFile,
    keys: &Identities,
) -> std::result::Result<MemberIndex, String> {
    let (found, records) = IndexFile::parse(content).ok_or("it is no index, or of a later version")?;
    if found != *belongs_to {
        return Err("it belongs to another stream that had this name".to_owned());
    }
    if records.starts_with(b"age-encryption.org/") {
        let opened = keys.open_bytes(records, MAX_LEN as u64);
        return haul_members::decode(&opened.ok_or("it cannot be decrypted")?);
    }
    haul_members::decode(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_members::Scanner;

    #[test]
    fn an_index_of_another_stream_is_not_used() {
        let mut scanner = Scanner::default();
        scanner.push(b"XBSTCK01\0E\x01\0\0\0a");
        let records = scanner.finish(&[]).unwrap();
        let of = |etag: &str, len| IndexFile { etag: etag.to_owned(), len };
        let bytes = of("e", 15).bytes(&records);
        let keys = Identities::default();
        assert_eq!(read(&bytes, &of("e", 15), &keys).unwrap().members.len(), 1);
        for other in [of("f", 15), of("e", 16), of("", 15)] {
            assert!(read(&bytes, &other, &keys).unwrap_err().contains("another stream"));
        }
        for len in 0..bytes.len() {
            assert!(read(&bytes[..len], &of("e", 15), &keys).is_err());
        }
    }
}
