//! Signatures of messages (MS-SMB2, 3.1.4.1) over parts that are not beside each other in memory.

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use cmac::{Cmac, Mac};
use ghash::GHash;
use ghash::universal_hash::UniversalHash;
use hmac::Hmac;
use sha2::Sha256;
use smb2::Session;
use smb2::crypto::signing::SigningAlgorithm;

/// Of the header and the fixed part of a request to write.
pub(super) const HEAD_LEN: usize = 112;
pub(super) const SIGNATURE_LEN: usize = 16;
const BLOCK_LEN: usize = 16;
/// A message ends at a multiple of this, if another one follows.
pub(super) const ALIGNMENT: usize = 8;

/// Signs the messages of a session.
pub(super) struct WriteSigner {
    key: [u8; 16],
    algorithm: SigningAlgorithm,
}

impl WriteSigner {
    /// `None` if the session signs nothing.
    pub(super) fn of(session: &Session) -> Option<Self> {
        let key = session.signing_key.as_slice().try_into().ok()?;
        session.should_sign.then(|| Self::new(key, session.signing_algorithm))
    }

    pub(super) fn new(key: [u8; 16], algorithm: SigningAlgorithm) -> Self {
        Self { key, algorithm }
    }

    /// The signature of a request to write: its head, without a signature; its content; and zeros.
    ///
    /// # Errors
    /// If the library for encryption fails.
    pub(super) fn sign(
        &self,
        id: u64,
        head: &[u8; HEAD_LEN],
        content: &[u8],
        padding: usize,
    ) -> Result<[u8; SIGNATURE_LEN], Unspecified> {
        let zeros = &[0; ALIGNMENT][..padding.min(ALIGNMENT)];
        match self.algorithm {
            SigningAlgorithm::HmacSha256 => self.mac::<Hmac<Sha256>>(&[head, content, zeros]),
            SigningAlgorithm::AesCmac => self.mac::<Cmac<Aes128>>(&[head, content, zeros]),
            SigningAlgorithm::AesGmac => self.gmac(id, head, content, padding),
        }
    }

    fn mac<M: Mac + KeyInit>(&self, parts: &[&[u8]]) -> Result<[u8; SIGNATURE_LEN], Unspecified> {
        let mut mac = M::new_from_slice(&self.key).map_err(|_| Unspecified)?;
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes()[..SIGNATURE_LEN].try_into().map_err(|_| Unspecified)
    }

    /// The tag of AES-128-GCM for data that is authenticated only (RFC 4543). The fast library takes data in one piece:
    /// it gets the content. The tag is a sum of products of each block with a power of the hash key, so the head is added
    /// afterwards.
    fn gmac(
        &self,
        id: u64,
        head: &[u8; HEAD_LEN],
        content: &[u8],
        padding: usize,
    ) -> Result<[u8; SIGNATURE_LEN], Unspecified> {
        // The nonce of a request is its number.
        let mut nonce = [0; NONCE_LEN];
        nonce[..8].copy_from_slice(&id.to_le_bytes());
        let nonce = Nonce::assume_unique_for_key(nonce);
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &self.key)?);
        let tag = key.seal_in_place_separate_tag(nonce, Aad::from(content), &mut [])?;

        let mut key = Block::default();
        Aes128::new(&self.key.into()).encrypt_block(&mut key);
        let mut before = GHash::new(&key);
        // The head ends at a block. The last block is filled with zeros, as the padding is.
        before.update_padded(head);
        let after = power(key, content.len().div_ceil(BLOCK_LEN) + 1);
        let head_part = product(before.finalize(), after);
        let counted = length(content.len());
        let lengths = sum(counted.into(), length(head.len() + content.len() + padding).into());
        let length_part = product(lengths.into(), key);
        Ok(sum(tag.as_ref().try_into().map_err(|_| Unspecified)?, sum(head_part.into(), length_part.into())))
    }
}

type Block = ghash::Block;

/// The last block, which has the number of bits.
fn length(bytes: usize) -> Block {
    let mut block = [0; BLOCK_LEN];
    block[..8].copy_from_slice(&(bytes as u64 * 8).to_be_bytes());
    block.into()
}

fn sum(one: [u8; BLOCK_LEN], other: [u8; BLOCK_LEN]) -> [u8; BLOCK_LEN] {
    std::array::from_fn(|at| one[at] ^ other[at])
}

/// In the field of GHASH.
fn product(one: Block, other: Block) -> Block {
    let mut hash = GHash::new(&other);
    hash.update(&[one]);
    hash.finalize()
}

/// `base` to the power of `exponent`, which is not 0.
fn power(base: Block, exponent: usize) -> Block {
    let highest = usize::BITS - exponent.leading_zeros() - 1;
    (0..highest).rev().fold(base, |power, bit| {
        let square = product(power, power);
        if exponent >> bit & 1 == 1 { product(square, base) } else { square }
    })
}

#[cfg(test)]
mod tests {
    use smb2::crypto::signing::sign_message;

    use super::*;

    #[test]
    fn a_signature_is_as_the_library_makes_it() {
        let content: Vec<u8> = (0..100_000_u32).map(|number| (number * 31 / 8) as u8).collect();
        for algorithm in [SigningAlgorithm::HmacSha256, SigningAlgorithm::AesCmac, SigningAlgorithm::AesGmac]
        {
            let signer = WriteSigner::new(*b"a key of a share", algorithm);
            for len in [0, 1, 7, 8, 15, 16, 17, 4096, 99_999, 100_000] {
                let (content, padding) = (&content[..len], len.next_multiple_of(ALIGNMENT) - len);
                let mut head = [5; HEAD_LEN];
                head[48..64].fill(0);
                let mut message = [&head[..], content, &[0; ALIGNMENT][..padding]].concat();
                sign_message(&mut message, &signer.key, algorithm, 1 << 40, false).unwrap();
                let signature = signer.sign(1 << 40, &head, content, padding).unwrap();
                assert_eq!(signature, message[48..64], "{algorithm:?} of {len} bytes");
            }
        }
    }
}
