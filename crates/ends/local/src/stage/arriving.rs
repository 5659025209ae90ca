//! A slice that is written while it arrives, before it is verified.
//!
//! It counts once it is verified. Until then, a later copy of the slice may take its place: the earlier one then belongs to
//! a connection that was given up, and may still have bytes to write. Each piece is written under the lock of the slice,
//! and only by the last copy, so the content that was verified stays. The large file may be committed or discarded
//! meanwhile; a slice does not keep it open.

use std::io;
use std::sync::{Arc, Weak};

use haul_core::{ChainingValue, Slice};

use super::large::LargeFile;

/// A slice that is arriving.
pub(crate) struct ArrivingSlice {
    large: Weak<LargeFile>,
    slice: Slice,
    /// The number of this copy of the slice.
    copy: u64,
    /// The bytes that have arrived.
    len: u64,
}

impl ArrivingSlice {
    /// `None` if it has to be verified before it is written.
    pub(crate) fn begin(large: &Arc<LargeFile>, slice: Slice) -> Option<Self> {
        let copy = large.begin_arriving(slice)?;
        Some(Self { large: Arc::downgrade(large), slice, copy, len: 0 })
    }

    /// Writes the next piece.
    pub(crate) fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        let at = self.len;
        self.len += piece.len() as u64;
        self.large.upgrade().map_or(Ok(()), |large| large.write_piece(self.slice, self.copy, piece, at))
    }

    /// The slice is verified, with this chaining value. Whether it counts in `large`: not if that is another file than the
    /// one it was written to, or if another copy of it is arriving.
    pub(crate) fn end(self, large: &Arc<LargeFile>, value: ChainingValue) -> bool {
        std::ptr::eq(self.large.as_ptr(), Arc::as_ptr(large))
            && large.end_arriving(self.slice, self.copy, value)
    }
}

impl Drop for ArrivingSlice {
    fn drop(&mut self) {
        if let Some(large) = self.large.upgrade() {
            large.abandon_arriving(self.slice, self.copy);
        }
    }
}
