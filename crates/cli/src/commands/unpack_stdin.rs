//! `haul get - --unpack`: a stream from standard input, which passes once.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

use haul_core::{BufferPool, Digest, Limit, Report, Result, Timestamp, Totals, random};
use haul_job::Observer;
use haul_streams::get::GetStatus;
use haul_streams::unpack::SequentialStream;

use super::get_output::names;
use super::output::stream_settings;
use super::start::{ends_of_run, start_run};
use super::stream::{StreamProgress, stdin, watched};
use super::unpack_passing::PassingInto;
use crate::args::GetArgs;
use crate::exit_code::Exit;
use crate::render::{Start, Summary, SummaryCommand};
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
    let into = PassingInto { args, dir, console: &console, cancel: &cancel };
    let ended = unpack(&into, memory);
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
    if args.bwlimit.is_some() && !args.reach.given.has("bwlimit") {
        let hint = "limit the program that writes it, for example by pv(1): ... | pv -qL 10m | haul get -";
        return refuse("--bwlimit", "standard input comes over no connection of haul", hint);
    }
    Ok(())
}

/// Unpacks the stream.
fn unpack(into: &PassingInto<'_>, memory: u64) -> Result<Report> {
    let stream = SequentialStream::open(stdin("pipe a stream into haul")?, NAME, into.cancel.flag())?;
    let mut config = LinkSettings::resolve(&into.args.reach.link(), &into.args.reach.given)?.config;
    config.pool = BufferPool::new(memory / 4);
    let mut ends = ends_of_run(config, into.console, into.cancel);
    let state = Digest::of(&random::number().to_le_bytes());
    let (shares, mtime) = ((memory / 2, memory / 8), Timestamp::now());
    let (mark, settings) = into.begin(&mut ends, &state, (stream.has_metadata(), mtime), shares)?;
    into.console
        .note("standard input passes once: if this run is interrupted, unpack again into an empty directory");
    let status = GetStatus::default();
    let outcome = watched(
        into.console,
        || progress(&status),
        || stream.unpack(settings, &status, &|path, len, digest| into.report_file(path, len, digest)),
    );
    Ok(into.end(Some(mark), outcome, NAME))
}

/// The progress: how much has passed.
fn progress(status: &GetStatus) -> StreamProgress {
    let passed = status.written.load(Ordering::Relaxed);
    let totals = Totals { found: 1, found_bytes: passed, sent_bytes: passed, ..Totals::default() };
    StreamProgress { totals, ended: false, limit: Limit::Source }
}
