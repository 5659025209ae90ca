//! The SHA-256 of the bytes that pass, beside the digest that verifies them.

use aws_lc_rs::digest::{Context, SHA256};
use haul_core::Digest;

/// Hashes bytes in order, or nothing if nobody asked.
#[derive(Default)]
pub(crate) struct StreamSha256(Option<Context>);

impl StreamSha256 {
    /// Hashes if `wanted`.
    pub(crate) fn new(wanted: bool) -> Self {
        Self(wanted.then(|| Context::new(&SHA256)))
    }

    /// Adds the next bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        if let Some(context) = &mut self.0 {
            context.update(bytes);
        }
    }

    /// The digest of all bytes so far; `None` if it was not wanted.
    pub(crate) fn digest(&self) -> Option<Digest> {
        let digest = self.0.clone()?.finish();
        digest.as_ref().try_into().ok().map(Digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_hashes_the_stream_if_somebody_asked() {
        let (mut wanted, mut other) = (StreamSha256::new(true), StreamSha256::new(false));
        for bytes in [&b"a"[..], b"", b"bc"] {
            wanted.update(bytes);
            other.update(bytes);
        }
        // FIPS 180-4, example of one block.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(wanted.digest().map(|digest| digest.to_string()).as_deref(), Some(abc));
        assert_eq!(other.digest(), None);
    }
}
