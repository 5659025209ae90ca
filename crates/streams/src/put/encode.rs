//! Encodes a stream before it is cut: compresses it on all CPUs, then encrypts it.

use haul_core::sync::Mutex;
use std::io::{self, Write};
use std::sync::Arc;

use age::stream::StreamWriter;
use haul_codec::frame::{FRAME_LEN, Framer, PACKED_LEN};
use haul_core::{Digest, Error, Method, Result, Side};
use haul_members::IndexFault;

use super::input::Input;
use crate::encoding::Encoding;
use crate::keys::Recipients;
use crate::ordered::{Ordered, threads_in};
use crate::sidecar::{Plain, Proof};

/// Memory of a block in flight: plain and compressed.
const PIECE: u64 = (FRAME_LEN + PACKED_LEN) as u64;

/// Memory for encoded bytes that are not yet in a part.
const OUT: u64 = 2 * FRAME_LEN as u64;

/// The least memory that remains for parts.
const PARTS: u64 = 24 << 20;

/// How a stream is encoded before it is stored.
#[derive(Clone, Default)]
pub struct Encode {
    /// The compression.
    pub method: Option<Method>,
    /// Whom it is encrypted to; not at all if there are none.
    pub recipients: Recipients,
}

impl Encode {
    /// The resulting encoding.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        Encoding { packed: self.method.map(Into::into), encrypted: !self.recipients.is_empty() }
    }

    /// The least memory in bytes that encoding takes.
    #[must_use]
    pub fn least(&self) -> u64 {
        if self.encoding().is_plain() { 0 } else { self.memory_of(1) }
    }

    fn memory_of(&self, threads: usize) -> u64 {
        let pieces = crate::ordered::depth(threads) as u64 * PIECE;
        OUT + self.method.map_or(0, |method| Framer::weight(method) * threads as u64 + pieces)
    }
}

/// The input of the cutter.
pub(super) struct EncodedInput<'a> {
    input: &'a mut Input,
    encoder: Option<Encoder>,
}

/// Compresses and encrypts.
struct Encoder {
    encode: Encode,
    frames: Option<Ordered<StreamBlock, io::Result<StreamBlock>>>,
    cipher: Option<StreamWriter<CipherOutput>>,
    shelf: CipherOutput,
    /// Encoded bytes, and how many of them were taken.
    out: Vec<u8>,
    taken: usize,
    /// Blocks to be reused.
    spare: Vec<StreamBlock>,
    hasher: blake3::Hasher,
    len: u64,
    ended: bool,
    /// The lengths of the frames.
    lens: Vec<u32>,
}

/// A block of the stream, plain and compressed.
#[derive(Default)]
struct StreamBlock {
    plain: Vec<u8>,
    packed: Vec<u8>,
}

/// Receives the output of the encryption.
#[derive(Clone, Default)]
struct CipherOutput(Arc<Mutex<Vec<u8>>>);

impl CipherOutput {
    /// Swaps the received bytes for an empty vector.
    fn take(&self, empty: &mut Vec<u8>) {
        empty.clear();
        std::mem::swap(empty, &mut *self.0.lock());
    }
}

impl Write for CipherOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> EncodedInput<'a> {
    /// Encodes `input`. Also returns how many bytes of `memory` this takes.
    ///
    /// # Errors
    /// Those of [`Recipients::encrypt`], and that of starting a thread.
    pub(super) fn new(input: &'a mut Input, encode: Encode, memory: u64) -> Result<(Self, u64)> {
        if encode.encoding().is_plain() {
            return Ok((Self { input, encoder: None }, 0));
        }
        let shelf = CipherOutput::default();
        let encrypted = encode.encoding().encrypted;
        let cipher = encrypted.then(|| encode.recipients.encrypt(shelf.clone())).transpose()?;
        let mut threads = 1;
        let frames = match encode.method {
            None => None,
            Some(method) => {
                // At most half of the memory: parts wait for the store in the other half.
                let share = (memory / 2).min(memory.saturating_sub(PARTS)).saturating_sub(OUT);
                threads = threads_in(share, Framer::weight(method), PIECE);
                Some(Ordered::start("pack", threads, || Framer::new(method), pack)?)
            }
        };
        let taken = encode.memory_of(threads);
        let encoder = Encoder {
            encode,
            frames,
            cipher,
            shelf,
            out: Vec::new(),
            taken: 0,
            spare: Vec::new(),
            hasher: blake3::Hasher::new(),
            len: 0,
            ended: false,
            lens: Vec::new(),
        };
        Ok((Self { input, encoder: Some(encoder) }, taken))
    }

    /// Reads some bytes; 0 at the end.
    ///
    /// # Errors
    /// `Cancelled`, or the error of reading or encoding.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match &mut self.encoder {
            None => self.input.read(buffer),
            Some(encoder) => encoder.read(self.input, buffer),
        }
    }

    /// Checks that the input is complete, see [`Input::finish`].
    ///
    /// # Errors
    /// Those of [`Input::finish`].
    pub(super) fn finish(&mut self) -> Result<()> {
        self.input.finish()
    }

    /// The index of the members of the stream, encrypted if the stream is.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn index(&mut self) -> std::result::Result<Vec<u8>, IndexFault> {
        let lens = self.encoder.as_ref().map(|encoder| &encoder.lens[..]).unwrap_or_default();
        let packed = self.input.take_scanner().finish(lens)?;
        match &self.encoder {
            Some(encoder) if encoder.encode.encoding().encrypted => {
                let sealed = encoder.encode.recipients.seal_bytes(&packed);
                sealed.map_err(|error| IndexFault::Unsupported(0, error.to_string()))
            }
            _ => Ok(packed),
        }
    }

    /// How the stream is encoded.
    pub(super) fn encoding(&self) -> Encoding {
        self.encoder.as_ref().map(|encoder| encoder.encode.encoding()).unwrap_or_default()
    }

    /// The length of the stream itself, if it is encoded.
    pub(super) fn plain_len(&self) -> Option<u64> {
        self.encoder.as_ref().map(|encoder| encoder.len)
    }

    /// The record of the stream itself, if it is encoded.
    ///
    /// # Errors
    /// Those of [`Plain::seal`].
    pub(super) fn plain(&self) -> Result<Plain> {
        let Some(encoder) = &self.encoder else { return Ok(Plain::Unknown) };
        let proof = Proof { len: encoder.len, digest: Digest(*encoder.hasher.finalize().as_bytes()) };
        if encoder.encode.recipients.is_empty() {
            return Ok(Plain::Open(proof));
        }
        Plain::seal(proof, &encoder.encode.recipients)
    }
}

fn pack(framer: &mut Framer, mut piece: StreamBlock) -> io::Result<StreamBlock> {
    framer.pack(&piece.plain, &mut piece.packed)?;
    Ok(piece)
}

impl Encoder {
    fn read(&mut self, input: &mut Input, buffer: &mut [u8]) -> Result<usize> {
        while self.taken == self.out.len() {
            self.taken = 0;
            self.out.clear();
            if !self.more(input)? {
                return Ok(0);
            }
        }
        let len = buffer.len().min(self.out.len() - self.taken);
        buffer[..len].copy_from_slice(&self.out[self.taken..self.taken + len]);
        self.taken += len;
        Ok(len)
    }

    /// Produces more output, perhaps none yet. `false` at the end.
    fn more(&mut self, input: &mut Input) -> Result<bool> {
        let failed = |error: &io::Error| Error::io(Side::Local, "encode the stream", error);
        let piece = match self.frames {
            Some(_) => self.next_frame(input)?,
            None => self.next_piece(input)?,
        };
        match (piece, &mut self.cipher) {
            (Some(mut piece), cipher) => {
                if self.frames.is_some() {
                    // A frame has about 2 MiB.
                    self.lens.push(piece.packed.len() as u32);
                }
                let bytes = if self.frames.is_some() { &mut piece.packed } else { &mut piece.plain };
                match cipher {
                    None => std::mem::swap(bytes, &mut self.out),
                    Some(cipher) => {
                        cipher.write_all(bytes).map_err(|error| failed(&error))?;
                        self.shelf.take(&mut self.out);
                    }
                }
                self.spare.push(piece);
                Ok(true)
            }
            (None, Some(_)) => {
                if let Some(cipher) = self.cipher.take() {
                    cipher.finish().map_err(|error| failed(&error))?;
                    self.shelf.take(&mut self.out);
                }
                Ok(true)
            }
            (None, None) => Ok(false),
        }
    }

    /// The next compressed frame; keeps as many others in work as there may be.
    fn next_frame(&mut self, input: &mut Input) -> Result<Option<StreamBlock>> {
        while self.frames.as_ref().is_some_and(|frames| !frames.is_full()) {
            let Some(piece) = self.next_piece(input)? else { break };
            if let Some(frames) = &mut self.frames {
                frames.submit(piece);
            }
        }
        let done = self.frames.as_mut().map_or(Ok(None), Ordered::next)?;
        done.transpose().map_err(|error| Error::io(Side::Local, "pack the stream", &error))
    }

    /// The next block of the stream; `None` at its end. An empty stream has one empty block, as tools require a frame.
    fn next_piece(&mut self, input: &mut Input) -> Result<Option<StreamBlock>> {
        if self.ended {
            return Ok(None);
        }
        let mut piece = self.spare.pop().unwrap_or_default();
        piece.plain.resize(FRAME_LEN, 0);
        let mut len = 0;
        while len < FRAME_LEN {
            let read = input.read(&mut piece.plain[len..])?;
            if read == 0 {
                self.ended = true;
                break;
            }
            len += read;
        }
        piece.plain.truncate(len);
        self.hasher.update(&piece.plain);
        let first = self.len == 0;
        self.len += len as u64;
        Ok((len > 0 || first).then_some(piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek};
    use std::os::fd::OwnedFd;

    fn encoded(method: Option<Method>, recipients: Recipients, plain: &[u8]) -> (Vec<u8>, Plain) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(plain).unwrap();
        file.rewind().unwrap();
        let mut input = Input::open(OwnedFd::from(file), Arc::default());
        let encode = Encode { method, recipients };
        let least = encode.least();
        let (mut feed, taken) = EncodedInput::new(&mut input, encode, 64 << 20).unwrap();
        assert!(taken >= least && taken <= 32 << 20, "{taken}");
        let (mut all, mut buffer) = (Vec::new(), vec![0; 100_000]);
        loop {
            let len = feed.read(&mut buffer).unwrap();
            if len == 0 {
                break;
            }
            all.extend_from_slice(&buffer[..len]);
        }
        feed.finish().unwrap();
        assert!(feed.encoding().is_plain() || feed.plain_len() == Some(plain.len() as u64));
        let plain = feed.plain().unwrap();
        (all, plain)
    }

    #[test]
    fn compression_is_deterministic_and_precedes_encryption() {
        let plain: Vec<u8> = (0..3_500_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let proof = Plain::Open(Proof { len: plain.len() as u64, digest: Digest::of(&plain) });
        for method in [Method::Lz4, Method::Zstd(3)] {
            let (stream, recorded) = encoded(Some(method), Recipients::default(), &plain);
            assert!(stream.len() < plain.len() / 2 && recorded == proof);
            assert!(encoded(Some(method), Recipients::default(), &plain).0 == stream);
            assert!(!encoded(Some(method), Recipients::default(), b"").0.is_empty());
        }
        assert!(encoded(None, Recipients::default(), &plain) == (plain.clone(), Plain::Unknown));
        let key = age::x25519::Identity::generate();
        let mut recipients = Recipients::default();
        recipients.add(&key.to_public().to_string()).unwrap();
        let (stream, recorded) = encoded(None, recipients, &plain);
        assert!(matches!(recorded, Plain::Sealed(_)));
        let decryptor = age::Decryptor::new_buffered(&stream[..]).unwrap();
        let mut back = Vec::new();
        decryptor.decrypt(std::iter::once(&key as _)).unwrap().read_to_end(&mut back).unwrap();
        assert!(back == plain);
    }
}
