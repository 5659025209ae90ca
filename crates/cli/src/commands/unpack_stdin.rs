//! `haul get - --unpack`: a stream from standard input, which passes once.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use haul_core::{
    BufferPool, Digest, Error, ErrorKind, Limit, Location, RelPath, Report, Result, Side, Timestamp, Totals,
    random,
};
use haul_engine::Cancel;
use haul_job::{Observer, directory_sink};
use haul_streams::get::GetStatus;
use haul_streams::unpack::{SequentialOutcome, SequentialSettings, SequentialStream};

use super::get_output::names;
use super::output::stream_settings;
use super::start::{ends_of_run, start_run};
use super::stream::{StreamProgress, report_copied, stdin, watched};
use super::unpack_mark::Mark;
use crate::args::GetArgs;
use crate::exit_code::Exit;
use crate::render::{Console, Start, Summary, SummaryCommand};
use crate::settings::{LinkSettings, content_memory, usage};

/// The name of the stream.
const NAME: &str = "standard input";

/// Whether the source of a get is standard input.
pub(super) fn is_stdin(args: &GetArgs) -> bool {
    ["-", "/dev/stdin"].iter().any(|name| args.source == *name)
}

/// Unpacks standard input into a directory.
///
/// # Errors
/// Errors before the run starts; later errors are in the summary.
pub(super) fn run(args: &GetArgs, dir: &Path) -> Result<Exit> {
    let begun = Instant::now();
    check(args)?;
    let memory = content_memory(&args.reach.memory, 1, 0)?;
    let start = Start::new(SummaryCommand::Get, NAME.to_owned(), Some(dir.display().to_string()));
    let (console, cancel) = start_run(stream_settings(&args.output, &args.manifest, names(args)), &start)?;
    let status = Arc::new(GetStatus::default());
    let ended = into_directory(args, dir, memory, &status, (&console, &cancel));
    let report = ended.inspect_err(|error| console.ended_by(error))?;
    let report = Report { seconds: begun.elapsed().as_secs_f64(), ..report };
    let mut summary = Summary::new(SummaryCommand::Get, report);
    (summary.is_of_files, summary.is_unpacked) = (true, true);
    Ok(console.finish(summary))
}

/// Refuses options that need a stream that can be read at any place.
fn check(args: &GetArgs) -> Result<()> {
    let refuse =
        |option: &str, cause: &str, hint: &str| Err(usage(&format!("use {option}"), cause).with_hint(hint));
    if args.pages.checks().is_some() && !args.reach.given.has("pages") {
        let hint = "`haul put --pages` checks a stream, or write it into a file and unpack that";
        return refuse("--pages", "a stream from standard input passes only once", hint);
    }
    if !args.decode.identity.is_empty() && !args.reach.given.has("identity") {
        return refuse("--identity", "standard input is unpacked as it comes", "pipe it through `age -d`");
    }
    Ok(())
}

/// Unpacks the stream.
fn into_directory(
    args: &GetArgs,
    dir: &Path,
    memory: u64,
    status: &Arc<GetStatus>,
    (console, cancel): (&Arc<Console>, &Cancel),
) -> Result<Report> {
    let stream = SequentialStream::open(stdin("pipe a stream into haul")?, NAME, cancel.flag())?;
    let mark = Mark::set(dir, &Digest::of(&random::number().to_le_bytes()), args.merge)?;
    console
        .note("standard input passes once: if this run is interrupted, unpack again into an empty directory");
    let mut config = LinkSettings::resolve(&args.reach.link(), &args.reach.given)?.config;
    config.pool = BufferPool::new(memory / 4);
    let mut ends = ends_of_run(config, console, cancel);
    let at = Location::Local(dir.as_os_str().to_owned().into_vec());
    let sink = directory_sink(&mut ends, &at, stream.has_metadata())?;
    let patterns = args.member.iter().map(|pattern| pattern.as_bytes().to_vec()).collect();
    let settings = SequentialSettings { sink, patterns, memory: memory / 2, mtime: Timestamp::now() };
    let done = |path: &RelPath, len: u64, digest: Option<Digest>| {
        report_copied(console, path.as_bytes(), len, (digest, None));
    };
    let outcome = watched(console, || progress(status), || stream.unpack(settings, status, &done));
    let mut report = report(outcome);
    if report.fatal.is_none()
        && !report.interrupted
        && let Err(error) = mark.remove()
    {
        report.fatal = Some(error);
    }
    if report.fatal.is_none() && report.totals.found == 0 && !args.member.is_empty() {
        let error = Error::new(ErrorKind::NotFound, Side::Source, "unpack", "no member matches").on(NAME);
        report.fatal = Some(error);
    }
    Ok(report)
}

/// The progress: how much has passed.
fn progress(status: &GetStatus) -> StreamProgress {
    let passed = status.written.load(Ordering::Relaxed);
    let totals = Totals { found: 1, found_bytes: passed, sent_bytes: passed, ..Totals::default() };
    StreamProgress { totals, ended: false, limit: Limit::Source }
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
