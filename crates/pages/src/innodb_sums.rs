//! The checksums of InnoDB.

use crate::bytes::{be16, be32, crc32c};

// The ranges that a checksum covers: the header behind the checksum itself, and the content.
const HEADER: std::ops::Range<usize> = 4..26;
const CONTENT: usize = 38;
/// The checksum of older servers, and the low half of the LSN.
const TRAILER: usize = 8;

/// Whether the checksum at the end of a page in the format `full_crc32` is right.
pub(crate) fn full_crc32(page: &[u8]) -> bool {
    /// The mark of a compressed page in its type; the rest is its length in units of 256 bytes.
    const PACKED: u16 = 1 << 15;
    let kind = be16(page, 24);
    let len = if kind & PACKED == 0 { page.len() } else { usize::from(kind & !PACKED) << 8 };
    let Some((covered, sum)) = page.get(..len).and_then(<[u8]>::split_last_chunk::<4>) else { return false };
    if kind & PACKED != 0 && len == page.len() {
        return false;
    }
    u32::from_be_bytes(*sum) == crc32c(covered)
}

/// The checksum of a page in the older format.
pub(crate) struct OriginalSums {
    pub(crate) crc32c: u32,
}

pub(crate) fn original_sums(page: &[u8]) -> OriginalSums {
    OriginalSums { crc32c: crc32c(&page[HEADER]) ^ crc32c(&page[CONTENT..page.len() - TRAILER]) }
}

impl OriginalSums {
    /// Whether the sums are those of servers before CRC-32C: `first` at the beginning, `last` at the end.
    pub(crate) fn is_older(&self, page: &[u8], first: u32, last: u32) -> bool {
        let old = last == be32(page, 16) || last == fold(&page[..26]);
        let new = || fold(&page[HEADER]).wrapping_add(fold(&page[CONTENT..page.len() - TRAILER]));
        old && (first == 0 || first == new())
    }
}

/// The CRC-32C of a page in the format `ROW_FORMAT=COMPRESSED`, and whether `stored` is the sum of older servers
/// instead.
pub(crate) fn compressed_sums(page: &[u8], stored: u32) -> (u32, bool) {
    let parts = [&page[4..16], &page[24..26], &page[34..]];
    let crc = parts.iter().fold(0, |crc, part| crc ^ crc32c(part));
    (crc, crc != stored && adler(&parts) == stored)
}

/// The sum of servers before CRC-32C.
fn fold(bytes: &[u8]) -> u32 {
    const MASKS: [u32; 2] = [1_463_735_687, 1_653_893_711];
    bytes.iter().fold(0_u32, |sum, byte| {
        let byte = u32::from(*byte);
        ((((sum ^ byte ^ MASKS[1]) << 8).wrapping_add(sum)) ^ MASKS[0]).wrapping_add(byte)
    })
}

/// Adler-32 of the parts, from 0 instead of 1.
fn adler(parts: &[&[u8]]) -> u32 {
    let (mut a, mut b) = (0_u32, 0_u32);
    for byte in parts.iter().copied().flatten() {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    b << 16 | a
}
