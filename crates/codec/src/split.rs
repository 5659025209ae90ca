//! Splits a stream into its frames.

use std::io::{self, BufRead, ErrorKind, Read};
use std::mem;

use lz4_flex::frame::FrameDecoder;
use zstd::stream::read::Decoder;

use crate::frame::{FRAME_LEN, FrameFormat, PACKED_LEN};

/// The magic numbers of frames.
const ZSTD: u32 = 0xfd2f_b528;
const LZ4: u32 = 0x184d_2204;
/// Skippable frames of both formats; the last four bits vary.
const SKIPPABLE: u32 = 0x184d_2a50;

/// Bytes decompressed at a time of a frame that is too long for the workers.
const PIECE: usize = 256 << 10;

/// A piece of the content, in stream order.
pub enum Unit {
    /// An independent frame, and its declared length: at most [`FRAME_LEN`].
    Frame(Vec<u8>, usize),
    /// Decompressed bytes of a longer frame, or of one without declared length.
    Plain(Vec<u8>),
}

/// Splits a stream into frames. Frames of other programs may have any length; long ones are decompressed here.
pub struct Splitter<R: BufRead> {
    format: FrameFormat,
    window_log: u32,
    state: SplitState<R>,
}

enum SplitState<R: BufRead> {
    Between(Pushed<R>),
    Zstd(Box<Decoder<'static, Pushed<R>>>),
    Lz4(Box<FrameDecoder<Pushed<R>>>),
    Ended,
}

/// The kind of the next frame of a stream.
enum NextFrame {
    Frame(usize),
    Long,
    Skipped,
    End,
}

impl<R: BufRead> Splitter<R> {
    /// The frames of `from`. A frame with a window of more than 2 to the power of `window_log` bytes is an error.
    pub fn new(format: FrameFormat, from: R, window_log: u32) -> Self {
        Self {
            format,
            window_log,
            state: SplitState::Between(Pushed { first: Vec::new(), at: 0, from, ended: false }),
        }
    }

    /// The next piece; `None` after the last one.
    ///
    /// # Errors
    /// Those of the stream; [`ErrorKind::InvalidData`] if it is not a frame of the format, and
    /// [`ErrorKind::UnexpectedEof`] if it ends within one.
    pub fn next_unit(&mut self) -> io::Result<Option<Unit>> {
        loop {
            match mem::replace(&mut self.state, SplitState::Ended) {
                SplitState::Ended => return Ok(None),
                SplitState::Between(mut from) => {
                    let mut frame = Vec::with_capacity(PACKED_LEN);
                    match gather(self.format, &mut from, &mut frame)? {
                        NextFrame::End => return Ok(None),
                        NextFrame::Skipped => self.state = SplitState::Between(from),
                        NextFrame::Frame(len) => {
                            self.state = SplitState::Between(from);
                            return Ok(Some(Unit::Frame(frame, len)));
                        }
                        NextFrame::Long => {
                            (from.first, from.at) = (frame, 0);
                            self.state = self.unpack(from)?;
                        }
                    }
                }
                SplitState::Zstd(mut decoder) => {
                    let mut plain = Vec::with_capacity(PIECE);
                    decoder.by_ref().take(PIECE as u64).read_to_end(&mut plain)?;
                    if !plain.is_empty() {
                        self.state = SplitState::Zstd(decoder);
                        return Ok(Some(Unit::Plain(plain)));
                    }
                    self.state = SplitState::Between(decoder.finish());
                }
                SplitState::Lz4(mut decoder) => {
                    let bytes = decoder.fill_buf()?;
                    let plain = bytes[..bytes.len().min(PIECE)].to_vec();
                    decoder.consume(plain.len());
                    if !plain.is_empty() {
                        self.state = SplitState::Lz4(decoder);
                        return Ok(Some(Unit::Plain(plain)));
                    }
                    let from = decoder.into_inner();
                    // The library takes an end of input between blocks for the end of the frame.
                    if from.ended {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                    self.state = SplitState::Between(from);
                }
            }
        }
    }

    fn unpack(&self, from: Pushed<R>) -> io::Result<SplitState<R>> {
        Ok(match self.format {
            FrameFormat::Zstd => {
                let mut decoder = Decoder::with_buffer(from)?.single_frame();
                decoder.window_log_max(self.window_log)?;
                SplitState::Zstd(Box::new(decoder))
            }
            FrameFormat::Lz4 => SplitState::Lz4(Box::new(FrameDecoder::new(from))),
        })
    }
}

/// Reads a frame into `frame`, unless it is too long to be independent.
fn gather(format: FrameFormat, from: &mut impl BufRead, frame: &mut Vec<u8>) -> io::Result<NextFrame> {
    if from.fill_buf()?.is_empty() {
        return Ok(NextFrame::End);
    }
    let magic = u32::from_le_bytes(append(from, frame)?);
    if magic & !0xf == SKIPPABLE {
        let len = u64::from(u32::from_le_bytes(append(from, frame)?));
        let skipped = io::copy(&mut from.take(len), &mut io::sink())?;
        return if skipped == len { Ok(NextFrame::Skipped) } else { Err(ErrorKind::UnexpectedEof.into()) };
    }
    match (format, magic) {
        (FrameFormat::Zstd, ZSTD) => gather_zstd(from, frame),
        (FrameFormat::Lz4, LZ4) => gather_lz4(from, frame),
        _ => Err(io::Error::new(
            ErrorKind::InvalidData,
            format!("there is no {format} frame where one begins"),
        )),
    }
}

/// RFC 8878, 3.1.1: header, blocks, optional checksum.
fn gather_zstd(from: &mut impl BufRead, frame: &mut Vec<u8>) -> io::Result<NextFrame> {
    let [descriptor] = append(from, frame)?;
    let single_segment = descriptor & 0x20 != 0;
    let window = usize::from(!single_segment);
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    append_some(from, frame, window + dictionary)?;
    let len = match (descriptor >> 6, single_segment) {
        (0, true) => u64::from(append::<1>(from, frame)?[0]),
        (1, _) => u64::from(u16::from_le_bytes(append(from, frame)?)) + 256,
        (2, _) => u64::from(u32::from_le_bytes(append(from, frame)?)),
        (3, _) => u64::from_le_bytes(append(from, frame)?),
        _ => return Ok(NextFrame::Long),
    };
    if len > FRAME_LEN as u64 {
        return Ok(NextFrame::Long);
    }
    loop {
        let [a, b, c] = append(from, frame)?;
        let head = u32::from_le_bytes([a, b, c, 0]);
        // A block of type 1 is one repeated byte.
        let stored = if head >> 1 & 3 == 1 { 1 } else { head as usize >> 3 };
        if frame.len() + stored + 4 > PACKED_LEN {
            return Ok(NextFrame::Long);
        }
        append_some(from, frame, stored)?;
        if head & 1 == 1 {
            break;
        }
    }
    append_some(from, frame, if descriptor & 4 != 0 { 4 } else { 0 })?;
    Ok(NextFrame::Frame(len as usize))
}

/// Header, blocks preceded by their lengths, a length of zero, optional checksum.
fn gather_lz4(from: &mut impl BufRead, frame: &mut Vec<u8>) -> io::Result<NextFrame> {
    let [flags, _] = append(from, frame)?;
    let has = |bit: u8| flags & bit != 0;
    if !has(0x08) {
        return Ok(NextFrame::Long);
    }
    let len = u64::from_le_bytes(append(from, frame)?);
    if len > FRAME_LEN as u64 {
        return Ok(NextFrame::Long);
    }
    append_some(from, frame, if has(0x01) { 5 } else { 1 })?;
    loop {
        // The first bit marks an uncompressed block.
        let stored = u32::from_le_bytes(append(from, frame)?) as usize & 0x7fff_ffff;
        if stored == 0 {
            break;
        }
        let checksum = if has(0x10) { 4 } else { 0 };
        if frame.len() + stored + checksum + 8 > PACKED_LEN {
            return Ok(NextFrame::Long);
        }
        append_some(from, frame, stored + checksum)?;
    }
    append_some(from, frame, if has(0x04) { 4 } else { 0 })?;
    Ok(NextFrame::Frame(len as usize))
}

/// Reads the next bytes and appends them to `frame`.
fn append<const N: usize>(from: &mut impl Read, frame: &mut Vec<u8>) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    frame.extend_from_slice(&bytes);
    Ok(bytes)
}

fn append_some(from: &mut impl Read, frame: &mut Vec<u8>, len: usize) -> io::Result<()> {
    let read = from.take(len as u64).read_to_end(frame)?;
    if read == len { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
}

/// A stream with some bytes pushed back.
struct Pushed<R> {
    first: Vec<u8>,
    at: usize,
    from: R,
    /// The end was reached.
    ended: bool,
}

impl<R: BufRead> BufRead for Pushed<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at < self.first.len() {
            return Ok(&self.first[self.at..]);
        }
        let bytes = self.from.fill_buf()?;
        self.ended = bytes.is_empty();
        Ok(bytes)
    }

    fn consume(&mut self, len: usize) {
        if self.at < self.first.len() {
            self.at += len;
        } else {
            self.from.consume(len);
        }
    }
}

impl<R: BufRead> Read for Pushed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let bytes = self.fill_buf()?;
        let len = bytes.len().min(buffer.len());
        buffer[..len].copy_from_slice(&bytes[..len]);
        self.consume(len);
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Framer, Unframer};
    use haul_core::Method;
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert, proptest};
    use std::io::Write;

    /// Returns the content, and the number of independent frames.
    fn read(format: FrameFormat, stream: &[u8]) -> io::Result<(Vec<u8>, usize)> {
        // Small buffers force many short reads.
        let mut splitter = Splitter::new(format, io::BufReader::with_capacity(7, stream), 23);
        let (mut all, mut back, mut alone) = (Vec::new(), Vec::new(), 0);
        while let Some(unit) = splitter.next_unit()? {
            match unit {
                Unit::Plain(plain) => all.extend(plain),
                Unit::Frame(frame, len) => {
                    assert!(frame.len() <= PACKED_LEN && len <= FRAME_LEN);
                    Unframer::default().unpack(format, &frame, len, &mut back)?;
                    all.extend_from_slice(&back);
                    alone += 1;
                }
            }
        }
        Ok((all, alone))
    }

    fn frames(method: Method, plain: &[u8]) -> Vec<u8> {
        let (mut stream, mut frame) = (Vec::new(), Vec::new());
        for piece in plain.chunks(FRAME_LEN) {
            Framer::new(method).pack(piece, &mut frame).unwrap();
            stream.extend_from_slice(&frame);
        }
        stream
    }

    fn words(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at / 1000 * 7 + at % 13) as u8).collect()
    }

    #[test]
    fn own_frames_are_independent_and_foreign_ones_are_read_too() {
        let plain = words(3 * FRAME_LEN + 5);
        for method in [Method::Lz4, Method::Zstd(3)] {
            let ours = frames(method, &plain);
            let format = method.into();
            let (read_back, alone) = read(format, &ours).unwrap();
            assert!(read_back == plain && alone == 4, "{method}");
            // A long frame without declared length, a skippable frame, and one of ours.
            let mut theirs = Vec::new();
            match format {
                FrameFormat::Zstd => {
                    let mut encoder = zstd::Encoder::new(&mut theirs, 1).unwrap();
                    encoder.write_all(&plain).unwrap();
                    encoder.finish().unwrap();
                }
                FrameFormat::Lz4 => {
                    let mut encoder = lz4_flex::frame::FrameEncoder::new(&mut theirs);
                    encoder.write_all(&plain).unwrap();
                    encoder.finish().unwrap();
                }
            }
            theirs.extend_from_slice(&0x184d_2a57_u32.to_le_bytes());
            theirs.extend_from_slice(&3_u32.to_le_bytes());
            theirs.extend_from_slice(b"abc");
            theirs.extend_from_slice(&frames(method, b"end"));
            let (read_back, alone) = read(format, &theirs).unwrap();
            assert!(read_back.len() == plain.len() + 3 && read_back.starts_with(&plain), "{method}");
            assert_eq!(alone, 1);
            for stream in [&ours, &theirs] {
                for cut in [1, 2, 8, 9, stream.len() / 2, stream.len() - 9] {
                    let error = read(format, &stream[..stream.len() - cut]).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{method}, {cut} bytes less");
                }
            }
            assert!(read(format, b"something else").is_err());
            assert!(read(format, b"").unwrap().0.is_empty());
        }
    }

    #[test]
    fn a_window_that_is_too_large_is_refused() {
        let mut stream = Vec::new();
        let mut encoder = zstd::Encoder::new(&mut stream, 1).unwrap();
        encoder.window_log(24).unwrap();
        encoder.write_all(&words(2 * FRAME_LEN)).unwrap();
        encoder.finish().unwrap();
        assert!(read(FrameFormat::Zstd, &stream).is_err());
    }

    proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(60))]

        #[test]
        fn any_bytes_may_come(bytes in vec(any::<u8>(), 0..300), at in any::<proptest::sample::Index>()) {
            for method in [Method::Lz4, Method::Zstd(1)] {
                let mut stream = frames(method, &words(5000));
                let at = at.index(stream.len());
                stream.splice(at.., bytes.iter().copied());
                let read = read(method.into(), &stream);
                prop_assert!(read.is_err() || read.is_ok_and(|(plain, _)| plain.len() < 10 << 20));
            }
        }
    }
}
