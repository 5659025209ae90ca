//! Sequences of independent frames, which `zstd -d` and `lz4 -d` read as one stream.
//!
//! A stream is cut into blocks of [`FRAME_LEN`] bytes, and each becomes a frame of the standard format with its length
//! and a checksum. So any number of CPUs can compress and decompress in parallel, and equal bytes always become equal
//! frames. Formats: RFC 8878 and <https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md>.

use std::fmt;
use std::io::{self, Read, Write};

use haul_core::Method;
use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use zstd::bulk::{Compressor, Decompressor};

/// Bytes of a stream in one frame. Source text compressed by zstd 3 was 15 % longer in frames of 1 MiB than in a single
/// one, and 3 % in frames of 4 MiB; longer frames leave memory for fewer threads.
pub const FRAME_LEN: usize = 2 << 20;

/// The longest frame in bytes: incompressible content is stored with a few bytes per block.
pub const PACKED_LEN: usize = FRAME_LEN + (FRAME_LEN >> 7);

/// A frame format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFormat {
    /// Zstandard.
    Zstd,
    /// LZ4.
    Lz4,
}

impl From<Method> for FrameFormat {
    fn from(method: Method) -> Self {
        match method {
            Method::Zstd(_) => Self::Zstd,
            Method::Lz4 => Self::Lz4,
        }
    }
}

impl fmt::Display for FrameFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
        })
    }
}

/// Compresses blocks, one at a time.
pub struct Framer {
    method: Method,
    zstd: Option<Compressor<'static>>,
}

impl Framer {
    /// A compressor for this method.
    #[must_use]
    pub fn new(method: Method) -> Self {
        Self { method, zstd: None }
    }

    /// The most memory in bytes that it takes, besides content.
    #[must_use]
    pub fn weight(method: Method) -> u64 {
        match method {
            Method::Lz4 => 1 << 20,
            Method::Zstd(..=3) => 3 << 20,
            Method::Zstd(4..=6) => 6 << 20,
            Method::Zstd(7..=8) => 10 << 20,
            Method::Zstd(9) => 18 << 20,
            Method::Zstd(_) => 38 << 20,
        }
    }

    /// Compresses `plain`, at most [`FRAME_LEN`] bytes, into `into`, which is cleared first.
    ///
    /// # Errors
    /// The error of the compressor, such as a lack of memory.
    pub fn pack(&mut self, plain: &[u8], into: &mut Vec<u8>) -> io::Result<()> {
        into.clear();
        into.reserve(PACKED_LEN);
        match self.method {
            Method::Lz4 => {
                let info = FrameInfo::new()
                    .content_size(Some(plain.len() as u64))
                    .block_size(BlockSize::Max256KB)
                    .block_mode(BlockMode::Independent)
                    .content_checksum(true);
                let mut encoder = FrameEncoder::with_frame_info(info, into);
                encoder.write_all(plain)?;
                encoder.finish()?;
            }
            Method::Zstd(level) => {
                let zstd = match &mut self.zstd {
                    Some(zstd) => zstd,
                    none => {
                        let mut zstd = Compressor::new(level.into())?;
                        zstd.include_checksum(true)?;
                        none.insert(zstd)
                    }
                };
                zstd.compress_to_buffer(plain, into)?;
            }
        }
        Ok(())
    }
}

/// Decompresses frames, one at a time.
#[derive(Default)]
pub struct Unframer {
    zstd: Option<Decompressor<'static>>,
}

impl Unframer {
    /// Decompresses the `len` bytes in `frame` into `into`, which is cleared first. Allocates nothing for a larger
    /// length that the frame claims.
    ///
    /// # Errors
    /// `InvalidData` if it is damaged, or holds more or less.
    pub fn unpack(
        &mut self,
        format: FrameFormat,
        frame: &[u8],
        len: usize,
        into: &mut Vec<u8>,
    ) -> io::Result<()> {
        into.clear();
        into.reserve(len);
        match format {
            FrameFormat::Lz4 => {
                FrameDecoder::new(frame).take(len as u64 + 1).read_to_end(into)?;
            }
            FrameFormat::Zstd => {
                let zstd = match &mut self.zstd {
                    Some(zstd) => zstd,
                    none => none.insert(Decompressor::new()?),
                };
                zstd.decompress_to_buffer(frame, into)?;
            }
        }
        if into.len() == len {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "a frame has another length than it says"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half of it is compressible.
    fn content(len: usize) -> Vec<u8> {
        let mut state = 7_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        (0..len).map(|at| if at % 8192 < 4096 { next() as u8 } else { (at / 100) as u8 }).collect()
    }

    const METHODS: [Method; 9] = [
        Method::Lz4,
        Method::Zstd(-5),
        Method::Zstd(3),
        Method::Zstd(6),
        Method::Zstd(8),
        Method::Zstd(9),
        Method::Zstd(12),
        Method::Zstd(15),
        Method::Zstd(22),
    ];

    #[test]
    fn frames_round_trip_are_deterministic_and_contexts_stay_small() {
        let plain = content(FRAME_LEN);
        let noise: Vec<u8> = plain.chunks(8192).flat_map(|chunk| chunk[..4096].repeat(2)).collect();
        for method in METHODS {
            let mut framer = Framer::new(method);
            let (mut frame, mut again, mut back) = (Vec::new(), Vec::new(), Vec::new());
            for piece in [&plain[..], &plain[..100_000], &plain[..1], &[], &noise[..FRAME_LEN]] {
                framer.pack(piece, &mut frame).unwrap();
                assert!(frame.len() <= PACKED_LEN, "{method}");
                Framer::new(method).pack(piece, &mut again).unwrap();
                assert!(frame == again, "{method}");
                let mut unframer = Unframer::default();
                unframer.unpack(method.into(), &frame, piece.len(), &mut back).unwrap();
                assert!(back == piece, "{method}");
                assert!(unframer.unpack(method.into(), &frame, piece.len() + 1, &mut back).is_err());
                if let Some(last) = frame.last_mut() {
                    *last ^= 1;
                }
                let damaged = unframer.unpack(method.into(), &frame, piece.len(), &mut back);
                assert!(damaged.is_err(), "{method}: the checksum is looked at");
            }
            if let Some(zstd) = &mut framer.zstd {
                let size = zstd.context_mut().sizeof() as u64;
                assert!(size <= Framer::weight(method), "{method}: {size}");
            }
        }
    }
}
