//! One large file in the queue, and its slices that are to be sent.

use std::ops::Range;
use std::sync::Arc;

use haul_core::digest::{part_count, slice_count};
use haul_core::{Entry, SLICE_LEN, Slice};

/// Whether a file is sent slice by slice.
pub(crate) fn is_large(entry: &Entry) -> bool {
    entry.len > SLICE_LEN
}

/// A large file with slices to send.
pub(super) struct QueuedLargeFile {
    pub(super) entry: Arc<Entry>,
    next: u32,
    end: u32,
    /// The next part, if slice `next` is sent in parts.
    part: u8,
    /// Only whole slices can be compared with the destination.
    whole: bool,
    /// The slices that the destination has, ascending.
    have: Vec<Range<u32>>,
}

impl QueuedLargeFile {
    /// All slices of a file but those in `have`. `whole`: no slice may be sent in parts.
    pub(super) fn new(entry: Arc<Entry>, have: Vec<Range<u32>>, whole: bool) -> Self {
        let end = slice_count(entry.len);
        let mut large = Self { entry, next: 0, end, part: 0, whole, have };
        large.skip();
        large
    }

    /// Whether no slice is left.
    pub(super) fn is_done(&self) -> bool {
        self.next >= self.end
    }

    /// The number of slices from the next one to the end of the file.
    pub(super) fn left(&self) -> usize {
        self.end.saturating_sub(self.next) as usize
    }

    /// The bytes from the next slice to the end of the file, without those that the destination has.
    pub(super) fn bytes_left(&self) -> u64 {
        let start = |slice: u32| self.entry.len.min(u64::from(slice) * SLICE_LEN);
        let bytes = |range: Range<u32>| start(range.end).saturating_sub(start(range.start));
        let have = self.have.iter().map(|have| bytes(have.start.max(self.next)..have.end)).sum();
        bytes(self.next..self.end).saturating_sub(have)
    }

    /// Takes up to `most` consecutive slices.
    pub(super) fn take(&mut self, most: u32) -> Range<u32> {
        let from = self.next;
        let gap = self.have.first().map_or(self.end, |have| have.start);
        self.next = self.end.min(gap).min(from.saturating_add(most));
        let taken = from..self.next;
        self.skip();
        taken
    }

    /// Takes the next slice, or a part of it if `splits` is set. A slice of which a part was taken stays in parts.
    pub(super) fn take_one(&mut self, splits: bool) -> Slice {
        let parts = part_count(self.entry.len, self.next);
        if self.whole || parts < 2 || (!splits && self.part == 0) {
            return Slice::whole(0, self.take(1).start);
        }
        let slice = Slice { part: Some(self.part), ..Slice::whole(0, self.next) };
        self.part = (self.part + 1) % parts;
        if self.part == 0 {
            self.take(1);
        }
        slice
    }

    /// Skips slices that the destination has.
    fn skip(&mut self) {
        while let Some(range) = self.have.first() {
            if self.next >= range.end {
                self.have.remove(0);
            } else if self.next >= range.start {
                self.next = range.end;
            } else {
                break;
            }
        }
    }
}
