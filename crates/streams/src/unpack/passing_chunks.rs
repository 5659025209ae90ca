//! Unpacks a stream that xbcloud stored while it passes: without an index, each chunk is fetched once all the same.
//!
//! Ranges of the chunks are fetched in parallel and pass in order, as in a get.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use haul_core::{Error, ErrorKind, Result, Side};

use super::member_files::{FileDone, SequentialSettings};
use super::open::FoundChunks;
use super::sequential::{KEPT, SequentialOutcome, SequentialStream};
use crate::get::{ContentOutput, GetSettings, GetStatus, get_chunks};

/// The progress of both halves.
#[derive(Default)]
pub struct PassingStatus {
    /// Of the chunks that were fetched.
    pub fetched: GetStatus,
    /// Of the stream that was unpacked.
    pub unpacked: GetStatus,
}

impl FoundChunks {
    /// Unpacks the stream with `memory` bytes for the chunks on their way. `begin` opens the directory when the format is
    /// known; its argument says whether the members have modes, owners and times.
    ///
    /// # Errors
    /// `Usage` if it is neither xbstream nor tar; those of `begin` and of reading the beginning. Later errors are in the
    /// outcome.
    pub fn unpack(
        &self,
        memory: u64,
        begin: impl FnOnce(bool) -> Result<SequentialSettings>,
        status: &PassingStatus,
        cancel: &Arc<AtomicBool>,
        done: &FileDone<'_>,
    ) -> Result<SequentialOutcome> {
        let failed = |error: &std::io::Error| Error::io(Side::Local, "unpack the stream", error);
        let (reader, writer) = std::io::pipe().map_err(|error| failed(&error))?;
        let settings = GetSettings { memory, ..GetSettings::clone(&self.settings) };
        let fetch =
            || get_chunks(&self.stream, ContentOutput::open(writer.into()), &settings, &status.fetched);
        std::thread::scope(|scope| {
            let fetching = haul_threads::spawn(scope, "fetch", fetch)?;
            let opened = SequentialStream::open(reader.into(), &self.stream.name(), Arc::clone(cancel));
            let unpacked = opened.and_then(|stream| {
                let settings = begin(stream.has_metadata())?;
                Ok(stream.unpack(settings, &status.unpacked, done))
            });
            // The pipe is closed, so the thread that fetches ends, too. If it has failed, the stream ended too early for
            // that reason.
            let fetched = haul_threads::join(fetching).and_then(|fetched| fetched);
            match (fetched, unpacked) {
                (Ok(_), unpacked) => unpacked,
                (Err(error), Ok(unpacked)) => Ok(unpacked.failed(error)),
                (Err(error), Err(_)) => Err(error),
            }
        })
    }
}

impl SequentialOutcome {
    fn failed(self, error: Error) -> Self {
        let is_own = matches!(&self.ended, Err(own) if own.kind() == ErrorKind::Cancelled);
        let error = if error.kind() == ErrorKind::Corrupt { error.with_hint(KEPT) } else { error };
        if is_own { self } else { Self { ended: Err(error), ..self } }
    }
}
