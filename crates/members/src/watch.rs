//! Sees the members of a stream as they pass.

use crate::index::MemberHead;

/// Takes the members that a [`crate::Scanner`] finds. Members are numbered from 0, and several may be open at a time.
pub trait MemberWatch: Send {
    /// A member begins.
    fn begins(&mut self, member: u32, head: &MemberHead);

    /// Content of a member from this offset on. Offsets ascend; the gaps between them are holes.
    fn content(&mut self, member: u32, start: u64, bytes: &[u8]);

    /// A member is complete, and has this length.
    fn ends(&mut self, member: u32, len: u64);
}
