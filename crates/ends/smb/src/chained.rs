//! The records of an answer, each with the place of the next one and a name in UTF-16.

use super::reply::{Fault, nonsense};

/// Where a record has its parts.
pub(super) struct Layout {
    /// The length of the name, in bytes.
    pub(super) name_len_at: usize,
    /// The bytes before the name.
    pub(super) fixed: usize,
    /// The cause of an error if it has them elsewhere.
    pub(super) damaged: &'static str,
}

/// A record. Its bytes may come from anywhere.
pub(super) struct Record<'a> {
    bytes: &'a [u8],
    /// The name, which need not be text.
    pub(super) units: Vec<u16>,
}

impl Record<'_> {
    pub(super) fn u32_at(&self, at: usize) -> Option<u32> {
        u32_at(self.bytes, at)
    }

    pub(super) fn u64_at(&self, at: usize) -> Option<u64> {
        Some(u64::from_le_bytes(*self.bytes.get(at..)?.first_chunk()?))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The records of an answer. Nothing follows an error.
pub(super) fn records<'a>(
    bytes: &'a [u8],
    layout: &'a Layout,
) -> impl Iterator<Item = Result<Record<'a>, Fault>> {
    let mut left = bytes;
    std::iter::from_fn(move || {
        if left.is_empty() {
            return None;
        }
        let Some((record, next)) = first(left, layout) else {
            left = &[];
            return Some(Err(nonsense(layout.damaged).into()));
        };
        left = next;
        Some(Ok(record))
    })
}

/// The first record, and the bytes of the others.
fn first<'a>(bytes: &'a [u8], layout: &Layout) -> Option<(Record<'a>, &'a [u8])> {
    let (next, len) = (u32_at(bytes, 0)? as usize, u32_at(bytes, layout.name_len_at)? as usize);
    let end = layout.fixed.checked_add(len)?;
    let name = bytes.get(layout.fixed..end)?;
    if next != 0 && next < end {
        return None;
    }
    let units = name.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    let others = if next == 0 { &[] } else { bytes.get(next..).unwrap_or_default() };
    Some((Record { bytes, units }, others))
}
