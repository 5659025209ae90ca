//! A stream that is stored compressed, in independent frames.

use std::ops::Range;
use std::sync::Arc;

use haul_codec::frame::{FRAME_LEN, FrameFormat, PACKED_LEN, Unframer};
use haul_core::{Error, ErrorKind, Result, Side};

use super::at::{StreamAt, load};
use super::blocks::{Blocks, TakeBlockBytes};

/// Decompresses frames.
pub(super) struct FramesAt {
    stored: Arc<dyn StreamAt>,
    format: FrameFormat,
    /// Where each frame begins, and the end of the last one.
    starts: Vec<u64>,
    len: u64,
    frames: Blocks,
}

impl FramesAt {
    /// A stream of `len` bytes whose frames have these lengths; `None` if they do not fit. `memory` is for frames.
    pub(super) fn new(
        stored: Arc<dyn StreamAt>,
        format: FrameFormat,
        lens: &[u32],
        len: u64,
        memory: u64,
    ) -> Option<Self> {
        let mut starts = Vec::with_capacity(lens.len() + 1);
        let mut at = 0_u64;
        for len in lens {
            starts.push(at);
            if *len as usize > PACKED_LEN {
                return None;
            }
            at += u64::from(*len);
        }
        starts.push(at);
        let fits = at == stored.len() && len.div_ceil(FRAME_LEN as u64).max(1) == lens.len() as u64;
        let frames = Blocks::new(memory / (FRAME_LEN + PACKED_LEN) as u64);
        fits.then_some(Self { stored, format, starts, len, frames })
    }

    fn frame(&self, index: u64) -> Result<Vec<u8>> {
        let damaged =
            |cause: String| Error::new(ErrorKind::Corrupt, Side::Source, "decode", cause).on(self.name());
        let at = index as usize;
        let (Some(start), Some(end)) = (self.starts.get(at), self.starts.get(at + 1)) else {
            return Err(damaged("it has fewer frames than its index".to_owned()));
        };
        let packed = load(&*self.stored, *start..*end)?;
        let len = (self.len - index * FRAME_LEN as u64).min(FRAME_LEN as u64) as usize;
        let mut plain = Vec::new();
        let unpacked = Unframer::default().unpack(self.format, &packed, len, &mut plain);
        unpacked.map_err(|error| damaged(error.to_string()))?;
        Ok(plain)
    }
}

impl StreamAt for FramesAt {
    fn name(&self) -> String {
        self.stored.name()
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, range: Range<u64>, take: &mut TakeBlockBytes<'_>) -> Result<()> {
        self.frames.read(range, FRAME_LEN as u64, take, |index| self.frame(index))
    }

    fn streams(&self) -> u32 {
        self.stored.streams()
    }

    fn came(&self) -> u64 {
        self.stored.came()
    }
}
