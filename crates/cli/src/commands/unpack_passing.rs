//! Unpacks a stream into a directory while it passes.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use haul_core::{Digest, Error, ErrorKind, Location, RelPath, Report, Result, Side, Timestamp};
use haul_engine::Cancel;
use haul_job::{Ends, directory_sink};
use haul_streams::unpack::{SequentialOutcome, SequentialSettings};

use super::stream::report_copied;
use super::unpack_mark::Mark;
use crate::args::GetArgs;
use crate::render::Console;

/// The directory, and the run that unpacks into it.
pub(super) struct PassingInto<'a> {
    pub(super) args: &'a GetArgs,
    pub(super) dir: &'a Path,
    pub(super) console: &'a Arc<Console>,
    pub(super) cancel: &'a Cancel,
}

impl PassingInto<'_> {
    /// Marks the directory and opens it for a stream of this state. Members have metadata, or the time of the stream. The
    /// memory is that of the newest slices, and that of slices on their way into the directory.
    ///
    /// # Errors
    /// Those of [`Mark::set`] and [`directory_sink`].
    pub(super) fn begin(
        &self,
        ends: &mut Ends,
        state: &Digest,
        (has_metadata, mtime): (bool, Timestamp),
        (memory, buffers): (u64, u64),
    ) -> Result<(Mark, SequentialSettings)> {
        let mark = Mark::set(self.dir, state, self.args.merge)?;
        let at = Location::Local(self.dir.as_os_str().as_bytes().to_vec());
        let sink = directory_sink(ends, &at, has_metadata)?;
        let patterns = self.args.member.iter().map(|pattern| pattern.as_bytes().to_vec()).collect();
        Ok((mark, SequentialSettings { sink, patterns, memory, buffers, mtime }))
    }

    /// Reports a file that is complete.
    pub(super) fn report_file(&self, path: &RelPath, len: u64, digest: Option<Digest>) {
        report_copied(self.console, path.as_bytes(), len, (digest, None));
    }

    /// Removes the mark if all is there. Returns the report, for the stream of this name.
    pub(super) fn end(&self, mark: Option<Mark>, outcome: SequentialOutcome, name: &str) -> Report {
        let mut report = report(outcome);
        if report.fatal.is_none()
            && !report.interrupted
            && let Some(Err(error)) = mark.map(Mark::remove)
        {
            report.fatal = Some(error);
        }
        if report.fatal.is_none() && report.totals.found == 0 && !self.args.member.is_empty() {
            let error = Error::new(ErrorKind::NotFound, Side::Source, "unpack", "no member matches");
            report.fatal = Some(error.on(name));
        }
        report
    }
}

fn report(outcome: SequentialOutcome) -> Report {
    let mut report = Report { totals: outcome.totals, notes: outcome.report.notes, ..Report::default() };
    match outcome.ended {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::Cancelled => report.interrupted = true,
        Err(error) => {
            report.corrupt = u64::from(error.kind() == ErrorKind::Corrupt);
            report.fatal = Some(error);
        }
    }
    report
}
