//! Frames, and the lies about a whole frame.

use std::io::{self, Read};

use crc_fast::{CrcAlgorithm, checksum};
use haul_core::digest::SliceHasher;
use haul_core::{ChainingValue, Error, Side};
use haul_wire::passing::{chunk_header, encode_trailer};
use haul_wire::{
    ChunkReader, FrameHeader, FrameKind, HEADER_LEN, MAX_BODY, MAX_PAYLOAD, Request, Response, decode_body,
    encode, encode_ping,
};

/// A frame as it came.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: FrameKind,
    pub(crate) id: u64,
    pub(crate) body: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    /// The proof that follows the payload, or that there is none, if the payload comes in chunks.
    pub(crate) proof: Option<Option<ChainingValue>>,
}

/// Everything that a frame can become.
pub(crate) const CHANGES: &[&str] = &[
    "id-0",
    "id+1",
    "id-max",
    "id-old",
    "id-other",
    "kind-0",
    "kind-hello",
    "kind-welcome",
    "kind-request",
    "kind-ping",
    "kind-6",
    "kind-255",
    "magic",
    "reserved",
    "header-crc",
    "body-crc",
    "body-0",
    "body+1",
    "body-most",
    "body-huge",
    "payload-0",
    "payload+1",
    "payload-1",
    "payload-most",
    "payload-huge",
    "content-more",
    "content-less",
    "content-none",
    "content-most",
    "content-other",
    "proof-other",
    "proof-none",
    "twice",
    "never",
    "late",
    "unasked",
    "text",
    "cut",
    "silence",
    "pings",
    "flood",
    "other-content",
];

/// The bytes to send in the place of a frame.
pub(crate) enum FalseFrame {
    /// These bytes are sent.
    Bytes(Vec<u8>),
    /// They are sent after the next frame.
    Later(Vec<u8>),
    /// They are sent, and the connection ends.
    Cut(Vec<u8>),
    /// Nothing is ever sent again.
    Silence,
    /// The first are sent so often, then the others.
    Flood(Vec<u8>, usize, Vec<u8>),
}

impl Frame {
    /// Reads one; `None` at the end, and where there is no frame.
    pub(crate) fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut head = [0; HEADER_LEN];
        if let Err(error) = from.read_exact(&mut head) {
            return if error.kind() == io::ErrorKind::UnexpectedEof { Ok(None) } else { Err(error) };
        }
        let header = FrameHeader::decode(&head).map_err(io::Error::other)?;
        let mut body = vec![0; header.body_len as usize];
        from.read_exact(&mut body)?;
        let mut payload = vec![0; header.payload_len as usize];
        let cut = |error: &io::Error| Error::io(Side::Wire, "read", error);
        let mut fill = |bytes: &mut [u8]| from.read_exact(bytes).map_err(|error| cut(&error));
        let proof = if is_chunked(header.kind, &body) {
            let mut chunks = ChunkReader::default();
            let proof = chunks.content(&mut payload, &mut fill).and_then(|()| chunks.trailer(&mut fill));
            Some(proof.map_err(|error| io::Error::other(error.to_string()))?)
        } else {
            from.read_exact(&mut payload)?;
            None
        };
        Ok(Some(Self { kind: header.kind, id: header.id, body, payload, proof }))
    }

    /// Its bytes, with checksums that are right and the lengths that it has.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.with_lengths(self.body.len() as u32, self.payload.len() as u32)
    }

    fn with_lengths(&self, body_len: u32, payload_len: u32) -> Vec<u8> {
        let header = FrameHeader {
            kind: self.kind,
            body_len,
            payload_len,
            id: self.id,
            body_crc: crc(&self.body[..self.body.len().min(body_len as usize)]),
        };
        let head = [&header.encode()[..], &self.body].concat();
        match self.proof {
            None => [head, self.payload.clone()].concat(),
            Some(proof) => {
                let chunk = chunk_header(self.payload.len());
                [&head[..], &chunk, &self.payload, &encode_trailer(proof)].concat()
            }
        }
    }

    /// The frame after a change. `old` and `other` are ids of requests that were answered and that were not.
    pub(crate) fn told(&self, change: &str, old: u64, other: u64) -> FalseFrame {
        let (body, payload) = (self.body.len() as u32, self.payload.len() as u32);
        let with = |change: &dyn Fn(&mut Self)| {
            let mut frame = self.clone();
            change(&mut frame);
            frame.bytes()
        };
        let with_id = |id: u64| with(&|frame| frame.id = id);
        let with_head = |change: &dyn Fn(&mut [u8])| {
            let mut bytes = self.bytes();
            change(&mut bytes[..HEADER_LEN - 4]);
            let sum = crc(&bytes[..HEADER_LEN - 4]);
            bytes[HEADER_LEN - 4..HEADER_LEN].copy_from_slice(&sum.to_le_bytes());
            bytes
        };
        let kind = |kind: u8| with_head(&|head| head[4] = kind);
        let lengths = |body, payload| self.with_lengths(body, payload);
        let whole = self.bytes();
        FalseFrame::Bytes(match change {
            "id-0" => with_id(0),
            "id+1" => with_id(self.id.wrapping_add(1)),
            "id-max" => with_id(u64::MAX),
            "id-old" => with_id(old),
            "id-other" => with_id(other),
            "kind-0" => kind(0),
            "kind-hello" => kind(1),
            "kind-welcome" => kind(2),
            "kind-request" => kind(3),
            "kind-ping" => kind(5),
            "kind-6" => kind(6),
            "kind-255" => kind(255),
            "magic" => with_head(&|head| head[0] = b'S'),
            "reserved" => with_head(&|head| head[6] = 1),
            "header-crc" => flipped(whole, HEADER_LEN - 1),
            "body-crc" => flipped(whole, 24),
            "body-0" => lengths(0, payload),
            "body+1" => lengths(body + 1, payload),
            "body-most" => lengths(MAX_BODY as u32, payload),
            "body-huge" => lengths(u32::MAX, payload),
            "payload-0" => lengths(body, 0),
            "payload+1" => lengths(body, payload + 1),
            "payload-1" => lengths(body, payload.wrapping_sub(1)),
            "payload-most" => lengths(body, MAX_PAYLOAD as u32),
            "payload-huge" => lengths(body, u32::MAX),
            "content-more" => with(&|frame| frame.payload.push(7)),
            "content-less" => with(&|frame| frame.payload.truncate(frame.payload.len().saturating_sub(1))),
            "content-none" => with(&|frame| frame.payload.clear()),
            "content-most" => with(&|frame| frame.payload.resize(MAX_PAYLOAD, 7)),
            "content-other" => with(&|frame| {
                let middle = frame.payload.len() / 2;
                frame.payload.get_mut(middle..=middle).into_iter().flatten().for_each(|byte| *byte ^= 1);
            }),
            "proof-other" => with(&|frame| frame.proof = frame.proof.map(|_| Some(ChainingValue([7; 32])))),
            "proof-none" => with(&|frame| frame.proof = frame.proof.map(|_| None)),
            "twice" => [&whole[..], &whole].concat(),
            "never" => Vec::new(),
            "late" => return FalseFrame::Later(whole),
            "unasked" => [whole, with_id(self.id + 100_000)].concat(),
            "text" => [b"\x1b]0;t\x07\x1b[2Jhaul: all there\r\n", &whole[..]].concat(),
            "cut" => return FalseFrame::Cut(whole[..whole.len() / 2].to_vec()),
            "silence" => return FalseFrame::Silence,
            "pings" => return FalseFrame::Flood(encode_ping().to_vec(), 20_000, whole),
            "flood" => return FalseFrame::Flood(whole, 1000, Vec::new()),
            "other-content" => other_content(self).unwrap_or(whole),
            _ => whole,
        })
    }
}

/// Whether the payload comes in chunks.
fn is_chunked(kind: FrameKind, body: &[u8]) -> bool {
    match kind {
        FrameKind::Request => matches!(decode_body(body), Ok(Request::Write { proof_follows: true, .. })),
        FrameKind::Response => matches!(decode_body(body), Ok(Response::Read { proof_follows: true, .. })),
        _ => false,
    }
}

/// The frame with another byte in its first slice, and with the proof of that content, so that nobody can detect it.
/// `None` if the content is packed, or the slice is not a whole small file without holes.
fn other_content(frame: &Frame) -> Option<Vec<u8>> {
    let Ok(Response::Read { mut slices, packing: None, ended, proof_follows: false }) =
        decode_body(&frame.body)
    else {
        return None;
    };
    let first = slices.first_mut()?.as_mut().ok()?;
    let [extent] = first.extents[..] else { return None };
    let mut told = frame.clone();
    let content =
        told.payload.get_mut(..extent.len as usize).filter(|_| extent.start == 0 && !extent.same)?;
    *content.first_mut()? ^= 1;
    let mut hasher = SliceHasher::new(u64::from(extent.len), 0);
    hasher.update(content);
    first.value = hasher.finish();
    let response = Response::Read { slices, packing: None, ended, proof_follows: false };
    told.body = encode(FrameKind::Response, 0, &response, 0).ok()?.split_off(HEADER_LEN);
    Some(told.bytes())
}

fn flipped(mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
    bytes[at] ^= 1;
    bytes
}

fn crc(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}
