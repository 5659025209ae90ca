//! Writing a slice of which only the changed pages were sent.

use std::sync::Arc;

use haul_core::{BatchData, Buffer, Entry, ErrorKind, Result, Retry, SLICE_LEN, Slice, SliceData, WriteDone};

use super::state::LocalSink;
use super::write::TakenState;
use crate::commit::queue::WrittenItem;
use crate::delta::base::DeltaBase;
use crate::delta::merge;
use crate::stage::large::LargeFile;
use crate::stage::write::Same;
use crate::ticket::{PendingSlice, WriteTicket};

/// Whether some pages of the content are unchanged, and were not sent.
pub(super) fn has_unchanged(data: &BatchData) -> bool {
    matches!(data.slices.as_slice(), [Ok(read)] if read.same_len() > 0)
}

impl LocalSink {
    /// As [`haul_core::Sink::write`], for content with unchanged pages.
    pub(super) fn write_changed(&self, data: BatchData, done: WriteDone) {
        let BatchData { batch, slices, mut content, .. } = data;
        let (Some((entry, slice)), [Ok(read)]) = (batch.get(0), slices.as_slice()) else {
            return done(Vec::new());
        };
        let pending = PendingSlice { ticket: WriteTicket::new(1, done), at: 0 };
        let taken = self.take_changed(entry, slice, read, &mut content);
        self.hand_over(pending, content.bytes().len() as u64, taken);
    }

    fn take_changed(
        &self,
        entry: &Arc<Entry>,
        slice: Slice,
        read: &SliceData,
        content: &mut Buffer,
    ) -> Result<TakenState> {
        if entry.is_stream() {
            return self.take_staged(entry, slice, read);
        }
        if entry.len <= SLICE_LEN {
            let cause = "a small file that is the same in parts";
            return Err(self.root().fault(ErrorKind::Protocol, "write", &entry.path, cause));
        }
        let large = match self.large(entry)? {
            Ok(large) => large,
            Err(digest) => return Ok(TakenState::Committed(digest)),
        };
        // The next try sends the whole slice.
        let changed = || {
            let cause = "the file to replace has changed since it was compared";
            self.root().fault(ErrorKind::Corrupt, "verify", &entry.path, cause).with_retry(Retry::Again)
        };
        let bases = &self.committer.bases;
        let base = bases.of(self.root(), &self.options, entry).ok_or_else(changed)?;
        let locked = large.lock_slice(slice);
        let same = self.verify(&large, &base, slice, read, content).ok_or_else(changed)?;
        let written = large.write(slice, read, content.bytes(), same);
        drop(locked);
        written.map_err(|e| self.write_error(&large, &e))?;
        bases.arrived(entry, read);
        base.release(slice);
        Ok(TakenState::Waits(WrittenItem::Slice(large)))
    }

    /// Takes a slice of a stream that the staged file has from an interrupted run, if it has.
    fn take_staged(&self, entry: &Arc<Entry>, slice: Slice, read: &SliceData) -> Result<TakenState> {
        let differs = || {
            let cause = "an interrupted run has not left this slice";
            self.root().fault(ErrorKind::Corrupt, "compare", &entry.path, cause)
        };
        if read.same_len() < SLICE_LEN || slice.part.is_some() {
            return Err(differs());
        }
        self.check(entry)?;
        let large = match self.large(entry)? {
            Ok(large) => large,
            Err(digest) => return Ok(TakenState::Committed(digest)),
        };
        let locked = large.lock_slice(slice);
        let is_same = large.holds(slice, read.value);
        drop(locked);
        if is_same { Ok(TakenState::Waits(WrittenItem::Slice(large))) } else { Err(differs()) }
    }

    /// Verifies a slice together with its unchanged pages, and inserts those into `content` unless they are in place.
    /// Gives where the unchanged pages are, or `None` if the slice does not verify.
    fn verify(
        &self,
        large: &LargeFile,
        base: &DeltaBase,
        slice: Slice,
        read: &SliceData,
        content: &mut Buffer,
    ) -> Option<Same> {
        let len = slice.len_in(large.entry().len) as usize;
        let reported = base.take_reported(slice.index).filter(|_| large.in_place);
        let proof = reported.and_then(|reported| merge::proof(len, slice, read, content.bytes(), &reported));
        if let Some(value) = proof {
            return (value == read.value).then_some(Same::NotSent);
        }
        let adopted = large.adopt(slice, base.file());
        // Adopted pages are read from their new place: the old file may change meanwhile.
        let from = if adopted { &large.staged.file } else { base.file() };
        merge::fill(&self.root().ops, content, slice, read, from, &self.pool);
        let same = if adopted { Same::InPlace } else { Same::Missing };
        read.proves(large.entry(), slice, content.bytes()).then_some(same)
    }
}
