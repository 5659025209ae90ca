//! Decrypts a stored stream, then decompresses it on all CPUs.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::atomic::Ordering;

use haul_codec::frame::{FRAME_LEN, FrameFormat, PACKED_LEN, Unframer};
use haul_codec::split::{Splitter, Unit};
use haul_core::{Digest, Error, ErrorKind, Result, Side};

use super::check::CheckedBy;
use super::pieces::Pieces;
use super::settings::{GetSettings, GetStatus};
use super::stored::StoredBytes;
use crate::encoding::Encoding;
use crate::ordered::{Ordered, threads_in};
use crate::sidecar::{Plain, Proof};

/// Memory of a frame in flight: compressed and decompressed.
const PIECE: u64 = (FRAME_LEN + PACKED_LEN) as u64;

/// Memory of one thread's decompressor.
const TOOLS: u64 = 1 << 20;

/// The least memory for decoding: one thread, and the frames in flight with it.
const LEAST: u64 = 12 << 20;

/// The share of `memory` for decoding.
pub(super) fn share(memory: u64) -> u64 {
    (memory / 3).max(LEAST)
}

/// A frame to decompress, and the length that it declares.
type UnpackJob = (FrameFormat, Vec<u8>, usize);

/// The stages of decompression.
type Frames<'a> = (FrameFormat, Splitter<Box<dyn BufRead + 'a>>, Ordered<UnpackJob, io::Result<Vec<u8>>>);

/// The decoded stream.
pub(super) struct StreamDecoder<'a> {
    source: DecodeSource<'a>,
    hasher: blake3::Hasher,
    len: u64,
    expected: Option<Proof>,
    name: &'a str,
    status: &'a GetStatus,
    checked: &'a Cell<Option<CheckedBy>>,
    /// The lengths of the frames.
    lens: Vec<u32>,
}

enum DecodeSource<'a> {
    Plain(Box<dyn BufRead + 'a>),
    Packed(Box<Frames<'a>>),
}

impl<'a> StreamDecoder<'a> {
    /// Decodes `stored`; `plain` is the record of the decoded stream.
    ///
    /// # Errors
    /// Those of [`Identities::decrypt`](crate::keys::Identities::decrypt), and that of starting a thread.
    pub(super) fn new(
        stored: StoredBytes<'a>,
        encoding: Encoding,
        plain: &Plain,
        settings: &GetSettings,
    ) -> Result<Self> {
        let StoredBytes { name, status, checked, .. } = stored;
        let (keys, memory) = (&settings.keys, share(settings.memory));
        let expected = plain.proof(keys);
        let mut source: Box<dyn BufRead + 'a> = Box::new(stored);
        if encoding.encrypted {
            let decrypted = keys.decrypt(source, name, &|error| failed(error, name))?;
            source = Box::new(BufReader::with_capacity(64 << 10, decrypted));
        }
        let source = match encoding.packed {
            None => DecodeSource::Plain(source),
            Some(format) => {
                let threads = threads_in(memory.saturating_sub(PIECE), TOOLS, PIECE);
                let frames = Ordered::start("unpack", threads, Unframer::default, unpack)?;
                // The window of a long frame may take half of the memory.
                let splitter = Splitter::new(format, source, (memory / 2).ilog2());
                DecodeSource::Packed(Box::new((format, splitter, frames)))
            }
        };
        let (hasher, lens) = (blake3::Hasher::new(), Vec::new());
        Ok(Self { source, hasher, len: 0, expected, name, status, checked, lens })
    }

    /// The digest that the decoded stream is compared with, if one is recorded.
    pub(super) fn digest(&self) -> Option<Digest> {
        self.expected.map(|proof| proof.digest)
    }
}

fn unpack(unframer: &mut Unframer, (format, frame, len): UnpackJob) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    unframer.unpack(format, &frame, len, &mut plain)?;
    Ok(plain)
}

impl Pieces for StreamDecoder<'_> {
    type Piece = Vec<u8>;

    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let plain = match &mut self.source {
            DecodeSource::Plain(source) => some_of(source),
            DecodeSource::Packed(frames) => next_frame(frames, &mut self.lens)?,
        };
        let plain = plain.map_err(|error| failed(error, self.name))?;
        if let Some(plain) = &plain {
            self.hasher.update(plain);
            self.len += plain.len() as u64;
            self.status.plain.store(self.len, Ordering::Relaxed);
        }
        Ok(plain)
    }

    fn checked(&mut self) -> Result<CheckedBy> {
        let wrong = |cause: String| {
            Error::new(ErrorKind::Corrupt, Side::Source, "verify the stream", cause).on(self.name)
        };
        *self.status.frames.lock() = std::mem::take(&mut self.lens);
        let stored = self.checked.get().ok_or_else(|| wrong("something follows its end".to_owned()))?;
        let Some(expected) = self.expected else { return Ok(stored) };
        let found = Digest(*self.hasher.finalize().as_bytes());
        if (expected.len, expected.digest) == (self.len, found) {
            return Ok(CheckedBy::Blake3);
        }
        Err(wrong(format!("its BLAKE3 is {found}, and {} was recorded", expected.digest)))
    }
}

/// The next bytes of a stream without frames.
fn some_of(source: &mut dyn BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut plain = Vec::with_capacity(FRAME_LEN);
    source.take(FRAME_LEN as u64).read_to_end(&mut plain)?;
    Ok((!plain.is_empty()).then_some(plain))
}

/// The next decompressed frame; keeps as many others in work as there may be.
fn next_frame(frames: &mut Frames<'_>, lens: &mut Vec<u32>) -> Result<io::Result<Option<Vec<u8>>>> {
    let (format, splitter, ordered) = frames;
    while !ordered.is_full() {
        match splitter.next_unit() {
            Ok(None) => break,
            Ok(Some(Unit::Frame(frame, len))) => {
                // A frame has at most a few MiB.
                lens.push(frame.len() as u32);
                ordered.submit((*format, frame, len));
            }
            Ok(Some(Unit::Plain(plain))) => ordered.put(Ok(plain)),
            // The frames before the error are valid, and are returned first.
            Err(error) => ordered.put(Err(error)),
        }
    }
    Ok(ordered.next()?.transpose())
}

/// The error of reading or decoding.
fn failed(error: io::Error, name: &str) -> Error {
    let error = match error.downcast::<Error>() {
        Ok(error) => return error,
        Err(error) => error,
    };
    let (kind, cause) = if error.kind() == io::ErrorKind::UnexpectedEof {
        (ErrorKind::Corrupt, "it ends too early: the stored stream was cut off".to_owned())
    } else if error.to_string().contains("too much memory") {
        (ErrorKind::Unsupported, "its frames need more memory than --max-memory leaves".to_owned())
    } else {
        (ErrorKind::Corrupt, error.to_string())
    };
    Error::new(kind, Side::Source, "decode", cause).on(name).with_hint("--raw gets the stored bytes")
}
