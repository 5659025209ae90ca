//! The chunks of xbstream.
//!
//! Each chunk has the magic number, flags, a type, and a path. A payload (`P`, or `S` with a sparse map) also has length,
//! offset in its file and CRC-32; `E` ends a file. Numbers are little-endian.

use std::collections::HashMap;

use haul_core::path::printable;
use haul_core::{EntryKind, RelPath};

use crate::build::{IndexBuilder, MemberPayload, ScanStep};
use crate::index::{IndexFault, MemberHead, crc32};

/// How a chunk begins.
pub(crate) const MAGIC: &[u8] = b"XBSTCK01";

/// Bytes before the path: magic number, flags, type, length of the path.
pub(crate) const FIXED: usize = 14;

/// The longest path of a file, as in xbstream(1).
const MAX_PATH: usize = 512;

/// The most runs of a sparse map.
const MAX_RUNS: usize = 1 << 16;

/// A chunk with this flag is skipped by readers that do not know its type.
const IGNORABLE: u8 = 1;

/// A file whose end has not come.
struct OpenMember {
    number: u32,
    len: u64,
}

/// Decodes chunks.
#[derive(Default)]
pub(crate) struct Xbstream {
    open: HashMap<Vec<u8>, OpenMember>,
    chunk: XbstreamChunk,
    part: ChunkStep,
}

/// The part of a chunk that is decoded next.
#[derive(Default)]
enum ChunkStep {
    #[default]
    Fixed,
    Path,
    Lengths,
    Map,
}

/// The present chunk.
#[derive(Default)]
struct XbstreamChunk {
    kind: u8,
    ignored: bool,
    path: Vec<u8>,
    len: u64,
    offset: u64,
    crc: u32,
    /// The sparse map; its CRC-32 is part of that of the chunk.
    map: Vec<u8>,
    runs: usize,
}

impl Xbstream {
    /// Decodes the next part of a chunk, which ends at this offset of the stream.
    pub(crate) fn decode(
        &mut self,
        bytes: &[u8],
        at: u64,
        to: &mut IndexBuilder,
    ) -> Result<ScanStep, IndexFault> {
        match std::mem::take(&mut self.part) {
            ChunkStep::Fixed => self.fixed(bytes, at),
            ChunkStep::Path => self.path(bytes, at, to),
            ChunkStep::Lengths => self.lengths(bytes, at, to),
            ChunkStep::Map => {
                bytes.clone_into(&mut self.chunk.map);
                self.payload(at, to)
            }
        }
    }

    fn fixed(&mut self, bytes: &[u8], at: u64) -> Result<ScanStep, IndexFault> {
        let begun = at - FIXED as u64;
        if !bytes.starts_with(MAGIC) {
            let why = "there is no chunk where one has to begin: the chunk before lies about its length";
            return Err(IndexFault::Damaged(begun, why.to_owned()));
        }
        let (flags, kind) = (bytes[8], bytes[9]);
        let len = le(&bytes[10..14]) as usize;
        let known = matches!(kind, b'P' | b'S' | b'E');
        if !known && flags & IGNORABLE == 0 {
            let why = format!("a chunk has the type {}, which haul cannot unpack", printable(&[kind]));
            return Err(IndexFault::Unsupported(begun, why));
        }
        if len == 0 || len >= MAX_PATH {
            return Err(IndexFault::Damaged(begun, format!("a chunk has a path of {len} bytes")));
        }
        self.chunk = XbstreamChunk { kind, ignored: !known, ..XbstreamChunk::default() };
        self.part = ChunkStep::Path;
        Ok(ScanStep::Gather(len))
    }

    fn path(&mut self, bytes: &[u8], at: u64, to: &mut IndexBuilder) -> Result<ScanStep, IndexFault> {
        bytes.clone_into(&mut self.chunk.path);
        if self.chunk.kind == b'E' && !self.chunk.ignored {
            let Some(open) = self.open.remove(bytes) else {
                // An empty file may have no other chunk.
                let number = begin(bytes, at, to)?;
                return to.end(number, 0).map(|()| ScanStep::Gather(FIXED));
            };
            return to.end(open.number, open.len).map(|()| ScanStep::Gather(FIXED));
        }
        self.part = ChunkStep::Lengths;
        Ok(ScanStep::Gather(if self.chunk.kind == b'S' { 24 } else { 20 }))
    }

    fn lengths(&mut self, bytes: &[u8], at: u64, to: &mut IndexBuilder) -> Result<ScanStep, IndexFault> {
        let (map, rest) = bytes.split_at(bytes.len() - 20);
        let chunk = &mut self.chunk;
        (chunk.len, chunk.offset) = (le(&rest[..8]), le(&rest[8..16]));
        chunk.crc = le(&rest[16..]) as u32;
        chunk.runs = le(map) as usize;
        if chunk.ignored {
            return Ok(ScanStep::Skip(chunk.len));
        }
        if chunk.runs > MAX_RUNS {
            return Err(self.damaged(at, &format!("a chunk has a map of {} runs", self.chunk.runs)));
        }
        if chunk.runs > 0 {
            self.part = ChunkStep::Map;
            return Ok(ScanStep::Gather(self.chunk.runs * 8));
        }
        self.payload(at, to)
    }

    /// The payload comes next.
    fn payload(&mut self, at: u64, to: &mut IndexBuilder) -> Result<ScanStep, IndexFault> {
        if !self.open.contains_key(&self.chunk.path) {
            let number = begin(&self.chunk.path, at, to)?;
            self.open.insert(self.chunk.path.clone(), OpenMember { number, len: 0 });
        }
        let (number, expected) =
            self.open.get(&self.chunk.path).map_or((0, 0), |member| (member.number, member.len));
        let XbstreamChunk { len, offset, .. } = self.chunk;
        if offset != expected {
            let why = if offset < expected { "two chunks are for one offset" } else { "a chunk is missing" };
            let why = format!("{why}: it is for byte {offset}, and byte {expected} comes next");
            return Err(self.damaged(at, &why));
        }
        let mut runs = Vec::with_capacity(self.chunk.runs);
        let (mut end, mut data) = (offset, 0_u64);
        for run in self.chunk.map.chunks_exact(8) {
            let (skip, len) = (le(&run[..4]), le(&run[4..]));
            // 2^16 runs of 32 bits do not overflow.
            data += len;
            end = end.saturating_add(skip);
            runs.push((end, len));
            end = end.saturating_add(len);
        }
        if self.chunk.runs == 0 {
            (end, data) = (offset.saturating_add(len), len);
            runs.push((offset, len));
        }
        if data != len || end > haul_core::digest::MAX_FILE_LEN {
            return Err(self.damaged(at, "a chunk lies about its length"));
        }
        if let Some(member) = self.open.get_mut(&self.chunk.path) {
            member.len = end;
        }
        runs.reverse();
        let crc = crc32(&self.chunk.map);
        Ok(ScanStep::Payload(MemberPayload { member: number, runs, crc }))
    }

    /// The payload has passed, and has this CRC-32.
    pub(crate) fn payload_over(&mut self, crc: u32, at: u64) -> Result<ScanStep, IndexFault> {
        if crc == self.chunk.crc {
            return Ok(ScanStep::Gather(FIXED));
        }
        let said = self.chunk.crc;
        let why =
            format!("a chunk is damaged or lies about its length: its CRC-32 is {crc:08x}, not {said:08x}");
        Err(self.damaged(at, &why))
    }

    /// The stream ends here.
    pub(crate) fn end(&self, at: u64, cut_off: bool) -> Result<(), IndexFault> {
        if cut_off || !matches!(self.part, ChunkStep::Fixed) {
            return Err(IndexFault::Damaged(at, "it ends inside a chunk".to_owned()));
        }
        match self.open.keys().min() {
            None => Ok(()),
            Some(path) => Err(IndexFault::Damaged(
                at,
                format!("it ends before the end of its file {}", printable(path)),
            )),
        }
    }

    fn damaged(&self, at: u64, why: &str) -> IndexFault {
        IndexFault::Damaged(at, format!("{}: {why}", printable(&self.chunk.path)))
    }
}

/// A file begins.
fn begin(path: &[u8], at: u64, to: &mut IndexBuilder) -> Result<u32, IndexFault> {
    let path = RelPath::tidy(path).ok().filter(|path| !path.is_root()).ok_or_else(|| {
        let why = format!("it names {}, which is not below the directory", printable(path));
        IndexFault::Damaged(at, why)
    })?;
    to.begin(MemberHead { path, kind: EntryKind::File, link: None, metadata: None })
}

/// A little-endian number of up to eight bytes.
fn le(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
