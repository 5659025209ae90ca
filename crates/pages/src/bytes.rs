//! The bytes of a page, and the verdict on it.

/// The verdict on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageVerdict {
    /// Its checksum is right, or it is new.
    Good,
    /// Its checksum is wrong.
    Bad,
    /// It has no checksum that can be checked.
    Unknown,
}

pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    // Without an exit in each step, so that many bytes are looked at in one.
    bytes.chunks(256).all(|chunk| chunk.iter().fold(0, |all, byte| all | byte) == 0)
}

/// The big-endian number at an offset; 0 behind the end.
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |number| u32::from_be_bytes(*number))
}

/// The big-endian number of two bytes at an offset; 0 behind the end.
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |number| u16::from_be_bytes(*number))
}

/// The CRC-32C of bytes.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}
