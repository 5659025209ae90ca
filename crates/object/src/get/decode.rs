//! The stream as it was before it was stored: decrypted, and then unpacked on all processors.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::atomic::Ordering;

use haul_codec::frame::{FRAME_LEN, Format, PACKED_LEN, Unframer};
use haul_codec::split::{Splitter, Unit};
use haul_core::{Digest, Error, ErrorKind, Result, Side};

use super::check::Checked;
use super::stored::Stored;
use super::{GetSettings, GetStatus, Pieces};
use crate::encoding::Encoding;
use crate::ordered::{Ordered, threads_in};
use crate::sidecar::{Plain, Proof};

/// Memory of a frame under way: as it is stored and unpacked.
const PIECE: u64 = (FRAME_LEN + PACKED_LEN) as u64;

/// Memory of the tools of a thread.
const TOOLS: u64 = 1 << 20;

/// Memory for decoding at least: a thread, and the pieces that are under way with it.
const LEAST: u64 = 12 << 20;

/// The part of `memory` that decoding takes.
pub(super) fn share(memory: u64) -> u64 {
    (memory / 3).max(LEAST)
}

/// A frame to be unpacked, and how long it says that it is.
type Job = (Format, Vec<u8>, usize);

/// What is unpacked.
type Frames<'a> = (Format, Splitter<Box<dyn BufRead + 'a>>, Ordered<Job, io::Result<Vec<u8>>>);

/// The stream itself.
pub(super) struct Decoder<'a> {
    source: Source<'a>,
    hasher: blake3::Hasher,
    len: u64,
    expected: Option<Proof>,
    name: &'a str,
    status: &'a GetStatus,
    checked: &'a Cell<Option<Checked>>,
}

enum Source<'a> {
    Plain(Box<dyn BufRead + 'a>),
    Packed(Box<Frames<'a>>),
}

impl<'a> Decoder<'a> {
    /// Decodes what `stored` gives; `plain` is recorded of the stream.
    ///
    /// # Errors
    /// If none of the keys opens it, or a thread cannot be started.
    pub(super) fn new(
        stored: Stored<'a>,
        encoding: Encoding,
        plain: &Plain,
        settings: &GetSettings,
    ) -> Result<Self> {
        let Stored { name, status, checked, .. } = stored;
        let (keys, memory) = (&settings.keys, share(settings.memory));
        let expected = plain.proof(keys);
        let mut source: Box<dyn BufRead + 'a> = Box::new(stored);
        if encoding.encrypted {
            let decrypted = keys.decrypt(source, name, &|error| failed(error, name))?;
            source = Box::new(BufReader::with_capacity(64 << 10, decrypted));
        }
        let source = match encoding.packed {
            None => Source::Plain(source),
            Some(format) => {
                let threads = threads_in(memory.saturating_sub(PIECE), TOOLS, PIECE);
                let frames = Ordered::start("unpack", threads, Unframer::default, unpack)?;
                // Of a long frame, half of the memory may be its window.
                let splitter = Splitter::new(format, source, (memory / 2).ilog2());
                Source::Packed(Box::new((format, splitter, frames)))
            }
        };
        Ok(Self { source, hasher: blake3::Hasher::new(), len: 0, expected, name, status, checked })
    }
}

fn unpack(unframer: &mut Unframer, (format, frame, len): Job) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    unframer.unpack(format, &frame, len, &mut plain)?;
    Ok(plain)
}

impl Pieces for Decoder<'_> {
    type Piece = Vec<u8>;

    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let plain = match &mut self.source {
            Source::Plain(source) => some_of(source),
            Source::Packed(frames) => next_frame(frames)?,
        };
        let plain = plain.map_err(|error| failed(error, self.name))?;
        if let Some(plain) = &plain {
            self.hasher.update(plain);
            self.len += plain.len() as u64;
            self.status.plain.store(self.len, Ordering::Relaxed);
        }
        Ok(plain)
    }

    fn checked(&mut self) -> Result<Checked> {
        let wrong = |cause: String| {
            Error::new(ErrorKind::Corrupt, Side::Source, "verify the stream", cause).on(self.name)
        };
        let stored = self.checked.get().ok_or_else(|| wrong("something follows its end".to_owned()))?;
        let Some(expected) = self.expected else { return Ok(stored) };
        let found = Digest(*self.hasher.finalize().as_bytes());
        if (expected.len, expected.digest) == (self.len, found) {
            return Ok(Checked::Blake3);
        }
        Err(wrong(format!("its BLAKE3 is {found}, and {} was recorded", expected.digest)))
    }
}

/// The next bytes, without frames.
fn some_of(source: &mut dyn BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut plain = Vec::with_capacity(FRAME_LEN);
    source.take(FRAME_LEN as u64).read_to_end(&mut plain)?;
    Ok((!plain.is_empty()).then_some(plain))
}

/// The next frame that is unpacked; meanwhile as many others are as there may be.
fn next_frame(frames: &mut Frames<'_>) -> Result<io::Result<Option<Vec<u8>>>> {
    let (format, splitter, ordered) = frames;
    while !ordered.is_full() {
        match splitter.next_unit() {
            Ok(None) => break,
            Ok(Some(Unit::Frame(frame, len))) => ordered.submit((*format, frame, len)),
            Ok(Some(Unit::Plain(plain))) => ordered.put(Ok(plain)),
            // What came before it is whole, and is handed over before.
            Err(error) => ordered.put(Err(error)),
        }
    }
    Ok(ordered.next()?.transpose())
}

/// An error of reading or decoding.
fn failed(error: io::Error, name: &str) -> Error {
    let error = match error.downcast::<Error>() {
        Ok(error) => return error,
        Err(error) => error,
    };
    let (kind, cause) = if error.kind() == io::ErrorKind::UnexpectedEof {
        (ErrorKind::Corrupt, "it ends too early: what is stored was cut off".to_owned())
    } else if error.to_string().contains("too much memory") {
        (ErrorKind::Unsupported, "its frames need more memory than --max-memory leaves".to_owned())
    } else {
        (ErrorKind::Corrupt, error.to_string())
    };
    Error::new(kind, Side::Source, "decode", cause).on(name).with_hint("--raw gets what is stored")
}
