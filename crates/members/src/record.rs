//! The index as bytes: records in the order of the stream, serialized with postcard and compressed with zstd.

use std::io::{Read, Write};

use haul_core::SLICE_LEN;
use haul_core::digest::MAX_FILE_LEN;
use serde::{Deserialize, Serialize};
use zstd::stream::{read::Decoder, write::Encoder};

use crate::check::check;
use crate::index::{IndexFault, Member, MemberHead, MemberIndex, MemberPiece, StreamFormat};

/// The longest compressed index.
pub const MAX_PACKED: usize = 64 << 20;

/// The longest index before compression.
const MAX_PLAIN: u64 = 256 << 20;

/// A record of an index. A new version of the format has another first record.
#[derive(Serialize, Deserialize)]
pub(crate) enum MemberRecord {
    /// The first record.
    Format(StreamFormat),
    /// A member begins; members are numbered from 0.
    Begin(MemberHead),
    /// Content of a member: `gap` bytes of the stream are between it and the content before.
    Data { member: u32, gap: u64, start: u64, len: u32, crc: u32 },
    /// A member is complete.
    End { member: u32, len: u64 },
    /// A frame that the stream is stored in.
    Frame(u32),
    /// The last record: the length of the stream.
    Stream(u64),
}

/// Collects records.
pub(crate) struct RecordLog {
    packed: Option<Encoder<'static, Vec<u8>>>,
    plain: u64,
}

impl RecordLog {
    pub(crate) fn new() -> Self {
        // Only a lack of memory prevents it; then there is no index.
        Self { packed: Encoder::new(Vec::new(), 3).ok(), plain: 0 }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// [`IndexFault::TooMany`].
    pub(crate) fn add(&mut self, record: &MemberRecord) -> Result<(), IndexFault> {
        let packed = self.packed.as_mut().ok_or(IndexFault::TooMany)?;
        let bytes = postcard::to_stdvec(record).map_err(|_| IndexFault::TooMany)?;
        self.plain += bytes.len() as u64;
        packed.write_all(&bytes).map_err(|_| IndexFault::TooMany)?;
        if self.plain > MAX_PLAIN || packed.get_ref().len() > MAX_PACKED {
            return Err(IndexFault::TooMany);
        }
        Ok(())
    }

    /// The compressed records.
    ///
    /// # Errors
    /// [`IndexFault::TooMany`].
    pub(crate) fn finish(self) -> Result<Vec<u8>, IndexFault> {
        let packed = self.packed.ok_or(IndexFault::TooMany)?.finish().map_err(|_| IndexFault::TooMany)?;
        if packed.len() > MAX_PACKED { Err(IndexFault::TooMany) } else { Ok(packed) }
    }
}

/// Decodes an index. Whatever the bytes are, the result is one that [`crate::Scanner`] could have made.
///
/// # Errors
/// Why the bytes are no index.
pub fn decode(packed: &[u8]) -> Result<MemberIndex, String> {
    let damaged = |_| "it is damaged".to_owned();
    let mut plain = Vec::new();
    let decoder = Decoder::new(packed).map_err(damaged)?;
    decoder.take(MAX_PLAIN + 1).read_to_end(&mut plain).map_err(damaged)?;
    if plain.len() as u64 > MAX_PLAIN {
        return Err("it is too long".to_owned());
    }
    let mut reader = RecordReader::default();
    let mut rest = &plain[..];
    while !rest.is_empty() {
        let (record, left) =
            postcard::take_from_bytes(rest).map_err(|_| "it is damaged, or of a later version".to_owned())?;
        rest = left;
        reader.take(record).ok_or_else(|| "its records contradict each other".to_owned())?;
    }
    let index = reader.finish().ok_or_else(|| "it is incomplete".to_owned())?;
    check(index).map_err(|fault| fault.to_string())
}

/// Checks records and joins them.
#[derive(Default)]
struct RecordReader {
    format: Option<StreamFormat>,
    members: Vec<(Member, bool)>,
    frames: Vec<u32>,
    /// The end of the content so far.
    at: u64,
    len: Option<u64>,
}

impl RecordReader {
    /// Takes a record; `None` if it cannot be.
    fn take(&mut self, record: MemberRecord) -> Option<()> {
        if self.len.is_some() || self.format.is_some() == matches!(record, MemberRecord::Format(_)) {
            return None;
        }
        match record {
            MemberRecord::Format(format) => self.format = Some(format),
            MemberRecord::Begin(head) => {
                self.members.push((Member { head, len: 0, pieces: Vec::new() }, false));
            }
            MemberRecord::Data { member, gap, start, len, crc } => {
                let (member, ended) = self.members.get_mut(member as usize)?;
                let at = self.at.checked_add(gap)?;
                let end = start.checked_add(u64::from(len))?;
                let is_valid = !*ended && len > 0 && end <= MAX_FILE_LEN && start >= member.len;
                if !is_valid || start / SLICE_LEN != (end - 1) / SLICE_LEN {
                    return None;
                }
                member.len = end;
                member.pieces.push(MemberPiece { start, at, len, crc });
                self.at = at.checked_add(u64::from(len))?;
            }
            MemberRecord::End { member, len } => {
                let (member, ended) = self.members.get_mut(member as usize)?;
                if *ended || len < member.len || len > MAX_FILE_LEN {
                    return None;
                }
                (member.len, *ended) = (len, true);
            }
            MemberRecord::Frame(len) => self.frames.push(len),
            MemberRecord::Stream(len) => self.len = Some(len),
        }
        Some(())
    }

    fn finish(self) -> Option<MemberIndex> {
        let (format, len) = (self.format?, self.len?);
        if self.at > len || self.members.iter().any(|(_, ended)| !ended) {
            return None;
        }
        let members = self.members.into_iter().map(|(member, _)| member).collect();
        Some(MemberIndex { format, len, members, frames: self.frames })
    }
}
