//! Several streams of one backup as one: their members belong into one directory.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use haul_core::{Digest, EntryKind, Error, ErrorKind, Result, Side};
use haul_members::{Member, MemberIndex};

use super::at::StreamAt;
use super::blocks::TakeBlockBytes;
use super::open::{IndexOrigin, MemberStream};
use crate::xbcloud::without_repeats;

/// Streams, one behind the other.
struct JoinedAt {
    name: String,
    /// Each with its offset.
    parts: Vec<(u64, Arc<dyn StreamAt>)>,
    len: u64,
}

impl StreamAt for JoinedAt {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, range: Range<u64>, take: &mut TakeBlockBytes<'_>) -> Result<()> {
        for (start, part) in &self.parts {
            let from = range.start.max(*start);
            let until = range.end.min(start + part.len());
            if from < until {
                let mut pass = |bytes: &[u8]| take(Some(bytes));
                part.read(from - start..until - start, &mut without_repeats(&mut pass))?;
            }
        }
        Ok(())
    }

    fn keeps_blocks(&self) -> bool {
        self.parts.iter().any(|(_, part)| part.keeps_blocks())
    }

    fn streams(&self) -> u32 {
        self.parts.iter().map(|(_, part)| part.streams()).max().unwrap_or(0)
    }

    fn came(&self) -> u64 {
        self.parts.iter().map(|(_, part)| part.came()).sum()
    }
}

/// Joins the streams of a backup. The result has no index to be written.
///
/// # Errors
/// `Corrupt` if two streams have a file of the same path, `Usage` if their formats differ or there are none.
pub fn join(streams: Vec<MemberStream>, name: String) -> Result<MemberStream> {
    let bad = |kind, cause| Error::new(kind, Side::Source, "join the streams of", cause).on(&name);
    let format = streams.first().map(|stream| stream.index.format);
    let format = format.ok_or_else(|| bad(ErrorKind::Usage, "there are none"))?;
    if streams.iter().any(|stream| stream.index.format != format) {
        return Err(bad(ErrorKind::Usage, "some are xbstream, and some are tar"));
    }
    let mtime = streams.iter().map(|stream| stream.mtime).max().unwrap_or_default();
    let (mut found, mut states) = (IndexOrigin::Beside, Vec::new());
    let (mut parts, mut members, mut len): (_, Vec<Member>, u64) = (Vec::new(), Vec::new(), 0);
    for stream in streams {
        states.extend_from_slice(&stream.state.0);
        if matches!(stream.found, IndexOrigin::Made(_)) {
            found = stream.found;
        }
        members.extend(stream.index.members.into_iter().map(|mut member| {
            member.pieces.iter_mut().for_each(|piece| piece.at = piece.at.saturating_add(len));
            member
        }));
        let end = len.saturating_add(stream.at.len());
        parts.push((len, stream.at));
        len = end;
    }
    let mut seen = HashSet::new();
    // Several streams may name a directory.
    members.retain(|member| member.head.kind != EntryKind::Dir || seen.insert(member.head.path.clone()));
    let is_twice =
        |member: &&Member| member.head.kind != EntryKind::Dir && !seen.insert(member.head.path.clone());
    if let Some(member) = members.iter().find(is_twice) {
        let error = bad(ErrorKind::Corrupt, "two streams have this file");
        return Err(error.on(member.head.path.as_bytes()));
    }
    let index = MemberIndex { format, len, members, frames: Vec::new() };
    let at = Arc::new(JoinedAt { name, parts, len });
    Ok(MemberStream { at, index, found, state: Digest::of(&states), mtime, made: None })
}
