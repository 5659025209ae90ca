//! Reads a payload in chunks, and the trailer behind it.

use haul_core::ChainingValue;

use crate::error::FrameError;
use crate::passing::{CHUNK_HEADER_LEN, TRAILER_LEN, chunk_len, decode_trailer};

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
    use crate::passing::{SIGN_OF_LIFE, chunk_header, encode_trailer};

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
