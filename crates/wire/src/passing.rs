//! The payload of a frame whose slice is read while it is sent (`proof_follows`).
//!
//! It consists of chunks: the length in four bytes (little-endian), and so many bytes. The content of all chunks together has
//! the length that the header of the frame says. A chunk of length 0 is a sign of life while the next piece is read. The
//! last chunk is the trailer.

use haul_core::{ChainingValue, Error, ErrorKind, Side};

use crate::error::FrameError;
use crate::frame::MAX_PAYLOAD;

/// The length of the header of a chunk in bytes.
const CHUNK_HEADER_LEN: usize = 4;
/// A chunk without content.
pub const SIGN_OF_LIFE: [u8; CHUNK_HEADER_LEN] = [0; CHUNK_HEADER_LEN];
/// The length of a trailer in bytes, without the header of its chunk.
const TRAILER_LEN: usize = 1 + 32;

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
fn chunk_len(header: [u8; CHUNK_HEADER_LEN]) -> Result<usize, FrameError> {
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
fn decode_trailer(bytes: &[u8; TRAILER_LEN]) -> Result<Option<ChainingValue>, FrameError> {
    match *bytes {
        [PROVED, value @ ..] => Ok(Some(ChainingValue(value))),
        bytes if bytes == [0; TRAILER_LEN] => Ok(None),
        _ => Err(FrameError::Rule("a trailer that has neither a proof nor zeros")),
    }
}

/// The error of a slice whose trailer has no proof.
#[must_use]
pub fn withdrawn() -> Error {
    let cause = "the other end could not read it to its end";
    Error::new(ErrorKind::SourceChanged, Side::Source, "read", cause)
}

/// Fills a buffer with the next bytes of the connection.
pub type FillBytes<'a, E> = dyn FnMut(&mut [u8]) -> Result<(), E> + 'a;

/// A payload in chunks that is being read.
#[derive(Debug, Default)]
pub struct ChunkReader {
    /// Bytes of the present chunk that were not read yet.
    left: usize,
}

impl ChunkReader {
    /// Fills `room` with the next content.
    ///
    /// # Errors
    /// If it does not come, or a chunk is too long.
    pub fn content<E: From<FrameError>>(
        &mut self,
        mut room: &mut [u8],
        fill: &mut FillBytes<'_, E>,
    ) -> Result<(), E> {
        while !room.is_empty() {
            if self.left == 0 {
                self.left = next_chunk(fill)?;
            }
            let (now, later) = room.split_at_mut(self.left.min(room.len()));
            fill(now)?;
            self.left -= now.len();
            room = later;
        }
        Ok(())
    }

    /// Reads the trailer, once all content was read: the proof, or `None` if the slice does not count.
    ///
    /// # Errors
    /// If it does not come, or something else does.
    pub fn trailer<E: From<FrameError>>(
        self,
        fill: &mut FillBytes<'_, E>,
    ) -> Result<Option<ChainingValue>, E> {
        if self.left > 0 || next_chunk(fill)? != TRAILER_LEN {
            return Err(FrameError::Length.into());
        }
        let mut trailer = [0; TRAILER_LEN];
        fill(&mut trailer)?;
        Ok(decode_trailer(&trailer)?)
    }
}

/// The length of the next chunk that is no sign of life.
fn next_chunk<E: From<FrameError>>(fill: &mut FillBytes<'_, E>) -> Result<usize, E> {
    loop {
        let mut header = [0; CHUNK_HEADER_LEN];
        fill(&mut header)?;
        match chunk_len(header)? {
            0 => {}
            len => return Ok(len),
        }
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

    const PROOF: ChainingValue = ChainingValue([7; 32]);

    fn chunk(bytes: &[u8]) -> Vec<u8> {
        [&chunk_header(bytes.len())[..], bytes].concat()
    }

    /// Reads content of ten bytes in steps of `step`, and the trailer. A cut is an error of its own.
    fn read(sent: &[u8], step: usize) -> Result<(Vec<u8>, Option<ChainingValue>), FrameError> {
        let mut left = sent;
        let mut fill = |room: &mut [u8]| {
            let (now, later) = left.split_at_checked(room.len()).ok_or(FrameError::Magic)?;
            room.copy_from_slice(now);
            left = later;
            Ok(())
        };
        let (mut chunks, mut content) = (ChunkReader::default(), vec![0; 10]);
        for room in content.chunks_mut(step) {
            chunks.content(room, &mut fill)?;
        }
        let proof = chunks.trailer(&mut fill)?;
        Ok((content, proof))
    }

    #[test]
    fn chunks_of_any_length_and_signs_of_life_are_read() {
        let life = &SIGN_OF_LIFE[..];
        let trailer = encode_trailer(Some(PROOF));
        let sent =
            [life, life, &chunk(b"abc"), life, &chunk(b"defghi"), &chunk(b"j"), life, &trailer].concat();
        for step in [1, 2, 3, 4, 7, 10, 11] {
            let (content, proof) = read(&sent, step).unwrap();
            assert_eq!((&content[..], proof), (&b"abcdefghij"[..], Some(PROOF)), "{step}");
        }
    }

    #[test]
    fn other_lengths_and_a_cut_end_the_connection() {
        let trailer = encode_trailer(None);
        let good = [&chunk(b"abcdefghij")[..], &trailer].concat();
        assert!(read(&good, 4).is_ok());
        for len in 0..good.len() {
            assert_eq!(read(&good[..len], 4), Err(FrameError::Magic), "{len}");
        }
        let long = [&chunk(b"abcdefghijk")[..], &trailer].concat();
        let twice = [&chunk(b"abcdefghij")[..], &chunk(b"k"), &trailer].concat();
        let endless = [&[255; 4][..], b"abcdefghij", &trailer].concat();
        for sent in [long, twice, endless] {
            assert_eq!(read(&sent, 4), Err(FrameError::Length));
        }
    }
}
