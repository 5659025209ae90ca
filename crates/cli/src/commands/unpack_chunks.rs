//! `haul get --unpack` of the chunks that xbcloud stored, without an index of them: each is fetched once.

use std::path::Path;
use std::sync::atomic::Ordering;

use haul_core::{BufferPool, Report, Result, Totals};
use haul_job::Observer;
use haul_streams::get::GetStatus;
use haul_streams::unpack::{FoundChunks, PassingStatus};

use super::get_output::bottleneck;
use super::members::{Opening, written_at};
use super::start::ends_of_run;
use super::stream::{StreamProgress, watched};
use super::unpack_mark::Mark;
use super::unpack_passing::PassingInto;
use crate::args::GetArgs;

/// The least memory for the newest slice of a file, and the last one of the file before it.
const NEWEST: u64 = 6 << 20;

/// Whether a stream is unpacked into `dir` while it passes. An interrupted run is continued with an index instead: with
/// it, the files that are complete are not fetched again. Pages are checked in files that can be read at any place.
pub(super) fn passes(args: &GetArgs, dir: &Path, chunks: &FoundChunks) -> bool {
    !chunks.has_index() && args.pages.checks().is_none() && !Mark::is_of(dir, &chunks.stream().state())
}

/// Unpacks the stream: one file after the other, as that is the order of the chunks.
///
/// # Errors
/// Errors before anything is made; later errors are in the report.
pub(super) fn run(into: &PassingInto<'_>, opening: Opening, chunks: &FoundChunks) -> Result<Report> {
    let (name, len, state) = (chunks.stream().name(), chunks.stream().len(), chunks.stream().state());
    if let Some(why) = chunks.refused_index() {
        into.console.note(&format!("the index of the stream is not used: {why}"));
    }
    let content = opening.settings.memory;
    let share = content / 8;
    let newest = share.max(NEWEST);
    let mut config = opening.config;
    config.pool = BufferPool::new(share);
    let mut ends = ends_of_run(config, into.console, into.cancel);
    let fetched = GetStatus::new(opening.status.pace.clone());
    let (status, mut mark) = (PassingStatus { fetched, ..PassingStatus::default() }, None);
    let done = |path: &_, len, digest| into.report_file(path, len, digest);
    let unpacked = watched(
        into.console,
        || progress(len, &status),
        || {
            let begin = |has_metadata| {
                let like = (has_metadata, written_at(chunks));
                let (set, settings) = into.begin(&mut ends, &state, like, (newest, share))?;
                mark = Some(set);
                Ok(settings)
            };
            chunks.unpack(content - 2 * share - newest, begin, &status, &into.cancel.flag(), &done)
        },
    );
    let outcome = unpacked?;
    let mut report = into.end(mark, outcome, &name);
    report.totals.wire_bytes = status.fetched.written.load(Ordering::Relaxed);
    Ok(report)
}

fn progress(len: u64, status: &PassingStatus) -> StreamProgress {
    let passed = status.unpacked.written.load(Ordering::Relaxed);
    let totals = Totals { found: 1, found_bytes: len, sent_bytes: passed, ..Totals::default() };
    let waits = status.fetched.waits.load(Ordering::Relaxed);
    let limit = bottleneck(&status.fetched.pace, waits);
    StreamProgress { totals, ended: true, limit }
}
