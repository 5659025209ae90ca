//! Taking a slice of which only what differs was sent.

use std::sync::Arc;

use haul_core::{
    BatchData, Buffer, Entry, Error, ErrorKind, Outcome, Result, Retry, SLICE_LEN, Side, Slice, SliceData,
    WriteDone,
};

use super::commit::{Item, Ticket, What};
use super::delta;
use super::sink::{LocalSink, Taken};
use super::stage::Same;

impl LocalSink {
    /// Whether some of it is in the file that is to be replaced.
    pub(super) fn has_same(data: &BatchData) -> bool {
        matches!(data.slices.as_slice(), [Ok(read)] if read.same_len() > 0)
    }

    /// As [`haul_core::Sink::write`], of such content.
    pub(super) fn write_changed(&self, data: BatchData, done: WriteDone) {
        let BatchData { batch, slices, mut content, .. } = data;
        let (Some((entry, slice)), [Ok(read)]) = (batch.get(0), slices.as_slice()) else {
            return done(Vec::new());
        };
        let ticket = Ticket::new(1, done);
        match self.take_changed(entry, slice, read, &mut content) {
            Ok(Taken::Wait(what)) => {
                let bytes = content.bytes().len() as u64;
                self.push(Item { ticket, at: 0, bytes, what });
            }
            Ok(Taken::Already(digest)) => ticket.settle(0, Ok(Outcome::Committed(Some(digest)))),
            Err(error) => ticket.settle(0, Err(error)),
        }
    }

    fn take_changed(
        &self,
        entry: &Arc<Entry>,
        slice: Slice,
        read: &SliceData,
        content: &mut Buffer,
    ) -> Result<Taken> {
        if entry.len <= SLICE_LEN {
            let cause = "a small file that is the same in parts";
            return Err(self.root().fault(ErrorKind::Protocol, "write", &entry.path, cause));
        }
        let large = match self.large(entry)? {
            Ok(large) => large,
            Err(digest) => return Ok(Taken::Already(digest)),
        };
        // Sent again, all of it comes.
        let changed = || {
            let cause = "the file that is replaced is not what it was when it was compared";
            self.root().fault(ErrorKind::Corrupt, "verify", &entry.path, cause).with_retry(Retry::Again)
        };
        let base = self.bases().of(self.root(), self.options(), entry).ok_or_else(changed)?;
        let door = large.door(slice);
        let len = slice.len_in(entry.len) as usize;
        let proof = |told: &[_]| delta::proof(len, slice, read, content.bytes(), told);
        let told = base.take_told(slice.index).filter(|_| large.in_place);
        let (proved, same) = if let Some(value) = told.and_then(|told| proof(&told)) {
            (value == read.value, Same::LeftOut)
        } else {
            let adopted = large.adopt(slice, base.file());
            // What was put in its place is looked at there: the old file may change meanwhile.
            let from = if adopted { &large.staged.file } else { base.file() };
            delta::fill(&self.root().ops, content, slice, read, from, self.pool());
            let same = if adopted { Same::There } else { Same::Missing };
            (read.proves(entry, slice, content.bytes()), same)
        };
        if !proved {
            return Err(changed());
        }
        large
            .write(slice, read, content.bytes(), same)
            .map_err(|e| Error::io(Side::Destination, "write", &e).on(self.root().shown(&entry.path)))?;
        drop(door);
        self.bases().came(entry, read);
        base.read_for_the_last_time(slice);
        Ok(Taken::Wait(What::Slice(large)))
    }
}
