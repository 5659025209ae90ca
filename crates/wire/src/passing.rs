//! The payload of a frame whose slice is read while it is sent (`proof_follows`).
//!
//! It consists of chunks: the length in four bytes (little-endian), and so many bytes. The content of all chunks together has
//! the length that the header of the frame says. A chunk of length 0 is a sign of life while the next piece is read. The
//! last chunk is the trailer.

use haul_core::ChainingValue;

use crate::error::FrameError;
use crate::frame::MAX_PAYLOAD;

/// The length of the header of a chunk in bytes.
pub const CHUNK_HEADER_LEN: usize = 4;
/// A chunk without content.
pub const SIGN_OF_LIFE: [u8; CHUNK_HEADER_LEN] = [0; CHUNK_HEADER_LEN];
/// The length of a trailer in bytes, without the header of its chunk.
pub const TRAILER_LEN: usize = 1 + 32;

/// The first byte of a trailer with a proof.
const PROVED: u8 = 1;

/// The header of a chunk of `len` bytes.
#[must_use]
pub fn chunk_header(len: usize) -> [u8; CHUNK_HEADER_LEN] {
    // A chunk is a part of a payload.
    (len as u32).to_le_bytes()
}

/// The length of a chunk.
///
/// # Errors
/// [`FrameError::Length`] if no chunk is so long.
pub fn chunk_len(header: [u8; CHUNK_HEADER_LEN]) -> Result<usize, FrameError> {
    let len = u32::from_le_bytes(header) as usize;
    if len <= MAX_PAYLOAD { Ok(len) } else { Err(FrameError::Length) }
}

/// The trailer of a slice with the header of its chunk: the proof, or zeros if the slice could not be read to its end.
#[must_use]
pub fn encode_trailer(proof: Option<ChainingValue>) -> [u8; CHUNK_HEADER_LEN + TRAILER_LEN] {
    let mut bytes = [0; CHUNK_HEADER_LEN + TRAILER_LEN];
    let (header, trailer) = bytes.split_at_mut(CHUNK_HEADER_LEN);
    header.copy_from_slice(&chunk_header(TRAILER_LEN));
    if let Some(ChainingValue(value)) = proof {
        trailer[0] = PROVED;
        trailer[1..].copy_from_slice(&value);
    }
    bytes
}

/// The proof in a trailer; `None` if the slice does not count.
///
/// # Errors
/// [`FrameError::Rule`] if it is no trailer.
pub fn decode_trailer(bytes: &[u8; TRAILER_LEN]) -> Result<Option<ChainingValue>, FrameError> {
    match *bytes {
        [PROVED, value @ ..] => Ok(Some(ChainingValue(value))),
        bytes if bytes == [0; TRAILER_LEN] => Ok(None),
        _ => Err(FrameError::Rule("a trailer that has neither a proof nor zeros")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailer_has_a_proof_or_zeros() {
        let proof = ChainingValue([9; 32]);
        let trailer = |proof| -> [u8; TRAILER_LEN] {
            let bytes = encode_trailer(proof);
            let (header, trailer) = bytes.split_first_chunk().unwrap();
            assert_eq!(chunk_len(*header), Ok(TRAILER_LEN));
            trailer.try_into().unwrap()
        };
        assert_eq!(decode_trailer(&trailer(Some(proof))), Ok(Some(proof)));
        assert_eq!(decode_trailer(&trailer(None)), Ok(None));
        for first in (0..=255).filter(|first| *first != PROVED) {
            let mut bytes = trailer(Some(proof));
            bytes[0] = first;
            assert!(decode_trailer(&bytes).is_err());
        }
    }

    #[test]
    fn no_chunk_is_longer_than_a_payload() {
        assert_eq!(chunk_len(chunk_header(MAX_PAYLOAD)), Ok(MAX_PAYLOAD));
        assert_eq!(chunk_len(chunk_header(MAX_PAYLOAD + 1)), Err(FrameError::Length));
        assert_eq!(chunk_len([255; 4]), Err(FrameError::Length));
        assert_eq!(chunk_len(SIGN_OF_LIFE), Ok(0));
    }
}
