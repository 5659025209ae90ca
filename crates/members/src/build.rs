//! Collects the members of a stream while it passes.

use crc_fast::{CrcAlgorithm, checksum_combine};
use haul_core::SLICE_LEN;

use crate::index::{IndexFault, MemberHead, StreamFormat};
use crate::record::{MemberRecord, RecordLog};
use crate::watch::MemberWatch;

/// The algorithm of [`crate::MemberPiece::crc`].
const CRC: CrcAlgorithm = CrcAlgorithm::Crc32IsoHdlc;

/// How the scanner treats the next bytes of a stream.
pub(crate) enum ScanStep {
    /// So many bytes to decode.
    Gather(usize),
    /// Content of a member.
    Payload(MemberPayload),
    /// So many bytes without meaning.
    Skip(u64),
}

/// Writes the records of an index.
pub(crate) struct IndexBuilder {
    log: RecordLog,
    members: u32,
    /// The end of the content so far.
    at: u64,
    piece: Option<OpenPiece>,
    watch: Option<Box<dyn MemberWatch>>,
}

/// A piece that may grow.
struct OpenPiece {
    member: u32,
    start: u64,
    at: u64,
    len: u32,
    crc: crc_fast::Digest,
}

/// The content of a member that comes next in the stream.
pub(crate) struct MemberPayload {
    pub(crate) member: u32,
    /// Where it belongs in the member: offsets and lengths, the next one last.
    pub(crate) runs: Vec<(u64, u64)>,
    /// The CRC-32 of the bytes so far.
    pub(crate) crc: u32,
}

impl MemberPayload {
    /// Whether all of it has passed. Removes runs without content.
    pub(crate) fn is_over(&mut self) -> bool {
        while self.runs.last().is_some_and(|(_, len)| *len == 0) {
            self.runs.pop();
        }
        self.runs.is_empty()
    }
}

impl IndexBuilder {
    pub(crate) fn new(watch: Option<Box<dyn MemberWatch>>) -> Self {
        Self { log: RecordLog::new(), members: 0, at: 0, piece: None, watch }
    }

    pub(crate) fn format(&mut self, format: StreamFormat) -> Result<(), IndexFault> {
        self.log.add(&MemberRecord::Format(format))
    }

    /// A member begins. Returns its number.
    pub(crate) fn begin(&mut self, head: MemberHead) -> Result<u32, IndexFault> {
        let next = self.members.checked_add(1).ok_or(IndexFault::TooMany)?;
        if let Some(watch) = &mut self.watch {
            watch.begins(self.members, &head);
        }
        self.log.add(&MemberRecord::Begin(head))?;
        Ok(std::mem::replace(&mut self.members, next))
    }

    /// A member is complete.
    pub(crate) fn end(&mut self, member: u32, len: u64) -> Result<(), IndexFault> {
        if let Some(watch) = &mut self.watch {
            watch.ends(member, len);
        }
        self.log.add(&MemberRecord::End { member, len })
    }

    /// Takes content from the front of `bytes`, which are at this offset of the stream. Returns how many bytes.
    pub(crate) fn take(
        &mut self,
        payload: &mut MemberPayload,
        at: u64,
        bytes: &[u8],
    ) -> Result<usize, IndexFault> {
        let Some((start, left)) = payload.runs.last_mut() else { return Ok(0) };
        let to_cut = SLICE_LEN - *start % SLICE_LEN;
        let len = (*left).min(to_cut).min(bytes.len() as u64);
        let piece = self.piece.get_or_insert_with(|| OpenPiece {
            member: payload.member,
            start: *start,
            at,
            len: 0,
            crc: crc_fast::Digest::new(CRC),
        });
        piece.crc.update(&bytes[..len as usize]);
        if let Some(watch) = &mut self.watch {
            watch.content(payload.member, *start, &bytes[..len as usize]);
        }
        // A piece is no longer than a slice.
        piece.len += len as u32;
        *start += len;
        *left -= len;
        if *left == 0 || len == to_cut {
            let (crc, len) = self.cut()?;
            payload.crc = checksum_combine(CRC, payload.crc.into(), crc.into(), len.into()) as u32;
        }
        Ok(len as usize)
    }

    /// Ends the piece. Returns its CRC-32 and its length.
    fn cut(&mut self) -> Result<(u32, u32), IndexFault> {
        let Some(piece) = self.piece.take() else { return Ok((0, 0)) };
        let OpenPiece { member, start, at, len, crc } = piece;
        let crc = crc.finalize() as u32;
        self.log.add(&MemberRecord::Data { member, gap: at - self.at, start, len, crc })?;
        self.at = at + u64::from(len);
        Ok((crc, len))
    }

    /// The compressed index of a stream of this length, stored in such frames.
    pub(crate) fn finish(mut self, len: u64, frames: &[u32]) -> Result<Vec<u8>, IndexFault> {
        for frame in frames {
            self.log.add(&MemberRecord::Frame(*frame))?;
        }
        self.log.add(&MemberRecord::Stream(len))?;
        self.log.finish()
    }
}
