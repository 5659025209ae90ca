//! `haul get --unpack` and `--member`.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use haul_core::{BufferPool, Location, Pace, Report, Result};
use haul_job::{Observer, RequestCounts, unpack};
use haul_object::Client;
use haul_streams::get::{Got, InputFile, get_file};
use haul_streams::unpack::MemberSource;

use super::get_output::{file, names, progress, report, stdout};
use super::members::{FoundStream, OpenStream, Opening};
use super::output::stream_settings;
use super::start::{paced, start_run};
use super::stream::{report_copied, watched};
use super::unpack_chunks::{passes, run as unpack_chunks};
use super::unpack_mark::Mark;
use super::unpack_passing::PassingInto;
use super::unpack_stdin::{is_stdin, run as unpack_stdin};
use crate::args::GetArgs;
use crate::exit_code::Exit;
use crate::locations::parse_location;
use crate::render::{Console, Start, Summary, SummaryCommand};
use crate::settings::{check_get, usage};

/// Unpacks a stream, or writes one of its members.
///
/// # Errors
/// Errors before the run starts; later errors are in the summary.
pub(super) fn run(args: &GetArgs) -> Result<Exit> {
    if let Some(dir) = args.unpack.as_deref().filter(|_| is_stdin(args)) {
        return unpack_stdin(args, dir);
    }
    let begun = Instant::now();
    let at = parse_location(&args.source, &args.reach.given)?;
    check_get(args, &at)?;
    let mut opening = Opening::new(&at, &args.reach, &args.decode)?;
    let written = args.unpack.as_deref().or(args.file());
    let start =
        Start::new(SummaryCommand::Get, at.to_string(), written.map(|path| path.display().to_string()));
    let (console, cancel) = start_run(stream_settings(&args.output, &args.manifest, names(args)), &start)?;
    let (pace, _rates) = paced(args.bwlimit.as_ref(), &cancel)?;
    opening.limit(pace);
    let (noted, status) = (Arc::clone(&console), Arc::clone(&opening.status));
    opening.note = Arc::new(move |text| noted.note(text));
    opening.cancel = cancel.clone();
    opening.is_whole = args.member.is_empty();
    let content = opening.settings.memory;
    let found = watched(&console, || progress(0, &status), || opening.find(&at));
    let found = found.inspect_err(|error| console.ended_by(error))?;
    let found = match (&args.unpack, found) {
        (Some(dir), FoundStream::Chunks(client, chunks)) if passes(args, dir, &chunks) => {
            let into = PassingInto { args, dir, console: &console, cancel: &cancel };
            let ended = unpack_chunks(&into, opening, &chunks);
            let ended = ended.map(|report| Report { seconds: begun.elapsed().as_secs_f64(), ..report });
            return finish(args, &console, ended, Some(client));
        }
        (_, found) => found,
    };
    let opened = watched(&console, || progress(0, &status), || opening.open_found(&at, found));
    let opened = opened.inspect_err(|error| console.ended_by(error))?;
    let client = opened.client.clone();
    let memory = opened.stream.memory_of_members(content);
    let ended = match &args.unpack {
        Some(dir) => into_directory(args, dir, (opened, memory), &status.pace, (&console, &cancel)),
        None => match one(args, opened, memory, (&console, &cancel), &status) {
            // A reader that closed the pipe needs no message.
            Ok(Got { checked: None, .. }) => return Ok(Exit::Incomplete),
            got => Ok(report(got.map(|got| got.len), &status, begun)),
        },
    };
    finish(args, &console, ended, client)
}

fn finish(
    args: &GetArgs,
    console: &Console,
    ended: Result<Report>,
    client: Option<Arc<Client>>,
) -> Result<Exit> {
    let mut summary = Summary::new(SummaryCommand::Get, ended.inspect_err(|error| console.ended_by(error))?);
    summary.is_of_files = client.is_none();
    summary.is_unpacked = args.unpack.is_some();
    summary.requests = client.map(|client| RequestCounts::of(client.requests()));
    Ok(console.finish(summary))
}

fn patterns(args: &GetArgs) -> Vec<Vec<u8>> {
    args.member.iter().map(|pattern| pattern.as_bytes().to_vec()).collect()
}

/// Unpacks the members into a directory.
fn into_directory(
    args: &GetArgs,
    dir: &Path,
    (opened, memory): (OpenStream, u64),
    pace: &Pace,
    (console, cancel): (&Arc<Console>, &haul_engine::Cancel),
) -> Result<Report> {
    let OpenStream { stream, mut ends, .. } = opened;
    let has_metadata = stream.index.members.iter().any(|member| member.head.metadata.is_some());
    let state = stream.state;
    let source = MemberSource::new(stream, &patterns(args), BufferPool::new(memory), args.pages.checks())?;
    let mark = Mark::set(dir, &state, args.merge)?;
    let at = Location::Local(dir.as_os_str().to_owned().into_vec());
    let mut report = unpack(&mut ends, Arc::new(source), &at, (has_metadata, pace), &**console, cancel)?;
    let whole =
        report.fatal.is_none() && !report.interrupted && report.totals.failed == 0 && report.corrupt == 0;
    if whole && let Err(error) = mark.remove() {
        report.fatal = Some(error);
    }
    Ok(report)
}

/// Writes one member to standard output or a file.
fn one(
    args: &GetArgs,
    opened: OpenStream,
    memory: u64,
    (console, cancel): (&Arc<Console>, &haul_engine::Cancel),
    status: &Arc<haul_streams::get::GetStatus>,
) -> Result<Got> {
    let OpenStream { stream, ends, .. } = opened;
    let state = stream.state;
    let pool = BufferPool::new(memory);
    let source = MemberSource::new(stream, &patterns(args), pool.clone(), None)?;
    let files: Vec<_> = source.entries().iter().filter(|entry| entry.is_file()).cloned().collect();
    let [entry] = &files[..] else {
        let cause = format!("{} files match, and one is expected", files.len());
        let error = usage("get the member", cause).on(args.source.as_bytes());
        return Err(error.with_hint("--unpack DIR takes any number of them"));
    };
    let name = entry.path.to_string();
    let read = InputFile {
        name: name.clone(),
        entry: Arc::clone(entry),
        source: Arc::new(source),
        hashes: false,
        pool,
        limit: None,
    };
    let output = match args.file() {
        Some(path) => {
            let state = [state.0.as_slice(), entry.path.as_bytes()].concat();
            haul_streams::get::ContentOutput::stage_state(&file(path, &name), &state, entry.len)?
        }
        None => stdout()?,
    };
    let look = || progress(entry.len, status);
    let got = watched(console, look, || get_file(&read, output, status, &cancel.flag()))?;
    if got.checked.is_some() {
        report_copied(console, entry.path.as_bytes(), got.len, (got.digest, got.sha256));
    }
    drop(ends);
    Ok(got)
}
