//! Checks a stream against the best digest that is recorded of it.

use crc_fast::CrcAlgorithm;
use haul_core::digest::hex;
use haul_core::{Error, ErrorKind, Side};
use md5::{Digest as _, Md5};

use haul_members::{IndexFault, Scanner};
use haul_object::Object;

use super::stream_tree::StreamTree;
use super::window::Fetched;
use crate::sidecar::Proof;

/// The digest, checksum or length that content was checked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckedBy {
    /// The BLAKE3 digest that haul recorded.
    Blake3,
    /// The CRC-64/NVME that the store keeps.
    Crc64,
    /// The CRC-32C that the store keeps.
    Crc32c,
    /// The MD5 that the store keeps.
    Md5,
    /// The CRC-32 of each chunk of xbstream.
    Chunks,
    /// No digest is recorded: only the length was checked.
    Length,
}

/// Hashes a stream and compares the digest at its end.
pub struct Check {
    hasher: Hasher,
    expected: String,
}

enum Hasher {
    Blake3(Box<StreamTree>),
    Crc64(Box<crc_fast::Digest>),
    Crc32c(Box<crc_fast::Digest>),
    Md5(Md5),
    Chunks(Box<Scanner>),
    None,
}

impl Check {
    /// For an object with this recorded `proof`.
    #[must_use]
    pub fn new(object: &Object, proof: Option<&Proof>) -> Self {
        let (hasher, expected) = if let Some(proof) = proof {
            (Hasher::Blake3(Box::new(StreamTree::new(object.len))), proof.digest.to_string())
        } else if let Some(crc64) = object.crc64 {
            (Hasher::Crc64(Box::new(crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme))), format!("{crc64:016x}"))
        } else if let Some(crc32c) = object.crc32c {
            (
                Hasher::Crc32c(Box::new(crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi))),
                format!("{crc32c:08x}"),
            )
        } else if let Some(md5) = object.md5() {
            (Hasher::Md5(Md5::new()), md5)
        } else {
            (Hasher::None, String::new())
        };
        Self { hasher, expected }
    }

    /// For a stream of xbstream, whose chunks each have a checksum.
    pub(super) fn chunks() -> Self {
        Self { hasher: Hasher::Chunks(Box::default()), expected: String::new() }
    }

    /// Hashes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.hasher {
            Hasher::Blake3(tree) => tree.update(bytes),
            Hasher::Crc64(hasher) | Hasher::Crc32c(hasher) => hasher.update(bytes),
            Hasher::Md5(hasher) => hasher.update(bytes),
            Hasher::Chunks(scanner) => scanner.push(bytes),
            Hasher::None => {}
        }
    }

    /// Adds a range: its value, if it was hashed and this hash is compared, else its bytes.
    pub(super) fn add(&mut self, fetched: &Fetched) {
        match &mut self.hasher {
            Hasher::Blake3(tree) => tree.add(fetched),
            _ => self.update(fetched.bytes()),
        }
    }

    /// Compares the digest with the recorded one.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if they differ.
    pub fn finish(self, name: &str) -> Result<CheckedBy, Error> {
        let (checked, found) = match self.hasher {
            Hasher::Blake3(tree) => {
                let found = tree.digest().map_or_else(|| "unknown".to_owned(), |digest| digest.to_string());
                (CheckedBy::Blake3, found)
            }
            Hasher::Crc64(hasher) => (CheckedBy::Crc64, format!("{:016x}", hasher.finalize())),
            Hasher::Crc32c(hasher) => (CheckedBy::Crc32c, format!("{:08x}", hasher.finalize())),
            Hasher::Md5(hasher) => (CheckedBy::Md5, hex(&hasher.finalize())),
            Hasher::Chunks(scanner) => {
                let bad = |fault: IndexFault| {
                    Error::new(ErrorKind::Corrupt, Side::Source, "verify", fault.to_string()).on(name)
                };
                return scanner.finish(&[]).map(|_| CheckedBy::Chunks).map_err(bad);
            }
            Hasher::None => return Ok(CheckedBy::Length),
        };
        if found == self.expected {
            return Ok(checked);
        }
        let what = match checked {
            CheckedBy::Blake3 => "BLAKE3",
            CheckedBy::Crc64 => "CRC-64/NVME",
            CheckedBy::Crc32c => "CRC-32C",
            _ => "MD5",
        };
        let cause = format!("its {what} is {found}, and {} was recorded", self.expected);
        Err(Error::new(ErrorKind::Corrupt, Side::Source, "verify", cause).on(name))
    }
}

#[cfg(test)]
mod tests {
    use haul_core::Digest;

    use super::*;

    #[test]
    fn the_best_recorded_digest_decides() {
        let bytes = b"some content";
        let crc64 = crc_fast::checksum(CrcAlgorithm::Crc64Nvme, bytes);
        let etag = format!("\"{}\"", hex(&Md5::digest(bytes)));
        let with_md5 = Object { etag, len: 12, ..Object::default() };
        let with_crc = Object { crc64: Some(crc64), ..with_md5.clone() };
        let with_crc32c = Object {
            crc32c: Some(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32),
            ..with_md5.clone()
        };
        let bare = Object { etag: "\"x-2\"".to_owned(), len: 12, ..Object::default() };
        let proof = Proof { len: 12, digest: Digest::of(bytes) };
        let check = |object: &Object, proof: Option<&Proof>, bytes: &[u8]| {
            let mut check = Check::new(object, proof);
            check.update(bytes);
            check.finish("s3://b/k")
        };
        assert_eq!(check(&with_crc, Some(&proof), bytes).unwrap(), CheckedBy::Blake3);
        assert_eq!(check(&with_crc, None, bytes).unwrap(), CheckedBy::Crc64);
        assert_eq!(check(&with_crc32c, None, bytes).unwrap(), CheckedBy::Crc32c);
        assert_eq!(check(&with_md5, None, bytes).unwrap(), CheckedBy::Md5);
        assert_eq!(check(&bare, None, bytes).unwrap(), CheckedBy::Length);
        let keyed = Object { keyed: true, ..with_md5.clone() };
        assert_eq!(check(&keyed, None, b"other").unwrap(), CheckedBy::Length);
        for object in [&with_md5, &with_crc, &with_crc32c] {
            assert_eq!(check(object, None, b"other").unwrap_err().kind(), ErrorKind::Corrupt);
        }
        assert_eq!(check(&bare, Some(&proof), b"other").unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
