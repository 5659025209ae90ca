//! Streams that an interrupted run has left: compared by the values of the journal.

use std::slice;
use std::sync::Arc;

use haul_core::{Entry, ErrorKind, Outcome, Result, SLICE_LEN, Slice, SliceData};

use haul_ends::large_file::ServerJournal;

use super::large_file::{LargeFile, LargeFileProgress};
use super::state::SftpSink;

/// Counts a slice as written if the staged file of the stream has it from an interrupted run.
pub(super) fn compare(
    sink: &SftpSink,
    entry: &Arc<Entry>,
    slice: Slice,
    data: &SliceData,
) -> Result<Outcome> {
    if let Some(large) = sink.large_files.of(entry).filter(|_| data.same_len() == SLICE_LEN) {
        let mut progress = large.lock();
        if progress.found.get(&slice.index) == Some(&data.value) {
            progress.found.remove(&slice.index);
            progress.proof.set(slice.index, data.value);
        }
        if progress.proof.has(slice.index) {
            return Ok(Outcome::Stored);
        }
    }
    let cause = "an interrupted run has not left this slice";
    Err(sink.tree.fault(ErrorKind::Corrupt, "compare", &entry.path, cause))
}

/// The caller must call this before it writes a slice. If the journal has a record of the slice, removes the journal
/// first: haul does not read the content back, so no record may outlive its content. The next record begins a new
/// journal, with the slices of this stream that have a proof.
pub(super) fn will_differ(sink: &SftpSink, large: &LargeFile, slice: Slice) -> Result<()> {
    let opening = |progress: &mut LargeFileProgress| progress.is_journal_busy();
    {
        let mut progress = large.opened.wait_while(large.lock(), opening);
        if !progress.found.contains_key(&slice.index) || !progress.records_found {
            return Ok(());
        }
        progress.records_found = false;
        let mut records = std::mem::take(&mut progress.records);
        records.retain(|(index, _)| progress.proof.has(*index));
        (progress.records, progress.recorded) = (records, 0);
        // Nobody else may write a journal meanwhile.
        progress.journal = ServerJournal::Busy;
    }
    let removed = sink.remove_all(slice::from_ref(&large.journal));
    let mut progress = large.lock();
    progress.journal = ServerJournal::Closed;
    // A failed removal is tried again with the slice.
    progress.records_found = removed.is_err();
    drop(progress);
    large.opened.notify_all();
    removed
}
