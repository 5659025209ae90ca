//! Writing a slice of a large file while it arrives: each piece is hashed and written while it is in the cache of the CPU.

use std::io;
use std::sync::Arc;

use haul_core::digest::SliceHasher;
use haul_core::sink::ArrivingContent;
use haul_core::{
    Batch, ChainingValue, Delta, Entry, ErrorKind, Extent, Result, Retry, SLICE_LEN, Slice, SliceData,
    WriteDone,
};

use super::state::LocalSink;
use super::write::TakenState;
use crate::commit::queue::WrittenItem;
use crate::stage::arriving::ArrivingSlice;
use crate::ticket::{PendingSlice, WriteTicket};

/// The only slice of the batch, if it is one of a large file, and all of it is data.
fn only_slice<'a>(
    batch: &'a Batch,
    slices: &'a [Result<SliceData>],
) -> Option<(&'a Arc<Entry>, Slice, &'a SliceData)> {
    let ([Ok(data)], (entry, slice)) = (slices, batch.get(0)?) else { return None };
    let whole = [Extent::data(0, u32::try_from(slice.len_in(entry.len)).ok()?)];
    (entry.len > SLICE_LEN && data.extents == whole).then_some((entry, slice, data))
}

impl LocalSink {
    /// As [`haul_core::Sink::write_arriving`].
    pub(super) fn take_arriving(
        &self,
        batch: &Arc<Batch>,
        slices: &[Result<SliceData>],
        content: &mut dyn ArrivingContent,
        done: &mut Option<WriteDone>,
    ) -> Result<()> {
        let Some((entry, slice, data)) = only_slice(batch, slices) else { return Ok(()) };
        let Some(mut arriving) = self.begin_arriving(entry, slice) else { return Ok(()) };
        // Content of this machine was hashed when it was read.
        let mut hasher =
            if content.is_at_hand() { None } else { Some(SliceHasher::new(entry.len, slice.start())) };
        let mut written = Ok(());
        loop {
            let piece = content.next()?;
            if piece.is_empty() {
                break;
            }
            if let Some(hasher) = &mut hasher {
                hasher.update(piece);
            }
            if written.is_ok() {
                written = self.write_piece(entry, &mut arriving, piece);
            }
        }
        let proof = content.proof()?.unwrap_or(data.value);
        let Some(done) = done.take() else { return Ok(()) };
        let pending = PendingSlice { ticket: WriteTicket::new(1, self.explaining(batch, done)), at: 0 };
        let taken = self.end_arriving(
            (entry, slice, data),
            arriving,
            [hasher.map_or(proof, |hasher| hasher.finish()), proof],
            written,
        );
        self.hand_over(pending, data.data_len(), taken);
        Ok(())
    }

    /// `None` also if the slice cannot be written: [`haul_core::Sink::write`] then reports why.
    fn begin_arriving(&self, entry: &Arc<Entry>, slice: Slice) -> Option<ArrivingSlice> {
        let finished = self.finished.read();
        if *finished || self.check(entry).is_err() {
            return None;
        }
        ArrivingSlice::begin(&self.large(entry).ok()?.ok()?, slice)
    }

    fn write_piece(&self, entry: &Entry, arriving: &mut ArrivingSlice, piece: &[u8]) -> io::Result<()> {
        let finished = self.finished.read();
        if *finished {
            return Err(io::Error::other("the run has ended"));
        }
        let _doing = self.tree().doing("write", &entry.path);
        arriving.write(piece)
    }

    fn end_arriving(
        &self,
        (entry, slice, data): (&Arc<Entry>, Slice, &SliceData),
        arriving: ArrivingSlice,
        [value, proof]: [ChainingValue; 2],
        written: io::Result<()>,
    ) -> Result<TakenState> {
        let fault = |kind, doing, cause: &str| self.root().fault(kind, doing, &entry.path, cause);
        let finished = self.finished.read();
        if *finished {
            return Err(fault(ErrorKind::Protocol, "write", "the run has ended"));
        }
        if value != proof {
            let cause = format!("slice {} did not arrive as it was sent", slice.index);
            return Err(fault(ErrorKind::Corrupt, "verify", &cause));
        }
        let large = match self.large(entry)? {
            Ok(large) => large,
            Err(digest) => return Ok(TakenState::Committed(digest)),
        };
        written.map_err(|e| self.write_error(&large, &e))?;
        if !arriving.end(&large, value) {
            let cause = format!("slice {} was written anew while it arrived", slice.index);
            return Err(fault(ErrorKind::Corrupt, "write", &cause).with_retry(Retry::Again));
        }
        if self.options.delta != Delta::Never {
            self.committer.bases.arrived(entry, data);
        }
        Ok(TakenState::Waits(WrittenItem::Slice(large)))
    }
}

#[cfg(test)]
#[path = "arriving_tests.rs"]
mod tests;
