//! `haul put`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command as Process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use haul_core::path::printable;
use haul_core::{Digest, ErrorKind, Event, Limit, Pace, PageReport, Report, Result, Side, Totals};
use haul_engine::{Cancel, tell_pages};
use haul_job::{Ends, Observer, RequestCounts, at_host};
use haul_members::IndexFault;
use haul_object::PutOptions;
use haul_streams::put::{
    Encode, Input, PutOutcome, PutSettings, PutStatus, PutTarget, StreamGroup, WITH_OTHERS, count_pipes,
    open_fifos, put,
};

use super::estimate;
use super::get_output::bottleneck;
use super::output::stream_settings;
use super::start::paced;
use super::stream::{StreamProgress, report_copied, stdin, stored_as, watched};
use super::targets::{Opener, destinations, objects};
use crate::args::PutArgs;
use crate::exit_code::Exit;
use crate::manifest::ManifestNames;
use crate::render::{Console, Start, Summary, SummaryCommand};
use crate::settings::{check_endpoint, check_put, content_memory, encode, put_options, usage};
use crate::signals;

/// With less than this read and not yet sent, the source is the bottleneck.
const IN_HAND: u64 = 32 << 20;

/// A stream and its destinations.
struct PutStream {
    input: Input,
    targets: Vec<PutTarget>,
    status: Arc<PutStatus>,
}

/// Writes a stream, or the streams of one backup.
///
/// # Errors
/// Errors before the run starts; later errors are in the summary.
pub(super) fn run(args: &PutArgs) -> Result<Exit> {
    let begun = Instant::now();
    let places = destinations(args)?;
    check_put(args, &places)?;
    check_endpoint(args.reach.store.address.endpoint.as_deref(), objects(&places))?;
    let options = put_options(&args.object, args.no_clobber)?;
    let count = streams(args)?;
    // A file gets the stream as it is: for hosts, --compress is for the way, and settings are for objects.
    let only_objects = objects(&places).count() == places.len();
    let encode = if only_objects { encode(&args.encode)? } else { Encode::default() };
    let memory = content_memory(&args.reach.memory, count as u64, encode.least())?;
    let (command, name) = command(&args.command)?;
    let cancel = Cancel::default();
    let (pace, _rates) = paced(args.bwlimit.as_ref(), &cancel)?;
    let opener = Opener::new(args, &places, (&cancel, &pace), memory, count as u64);
    let clients = opener.clients(&options, None)?;
    // All destinations get the same parts.
    let most = clients.iter().map(|client| client.terms().max_parts).min().unwrap_or(1);
    let max_parts = args.max_parts.unwrap_or(most);
    if args.dry_run {
        return estimate::run(args, &objects(&places).collect::<Vec<_>>(), &clients, max_parts);
    }
    let start = Start::new(
        SummaryCommand::Put,
        name.clone(),
        Some(places.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")),
    );
    let console = Console::start(stream_settings(&args.output, &args.manifest, ManifestNames::Last), &start)?;
    signals::watch(&cancel, &console)?;
    let put_settings = PutSettings {
        options: options.clone(),
        memory: opener.left(memory),
        max_parts,
        // With several streams, the group checks this.
        allow_empty: args.allow_empty || args.fifo.fifo_dir.is_some(),
        resume: args.resume,
    };
    let mut ends = opener.ends(&console)?;
    let opened =
        opened(args, &opener, &options, ends.as_mut(), (command, &name, count), (&cancel, &pace), &console);
    let streams = opened.inspect_err(|error| console.ended_by(error))?;
    let mut summary = upload(streams, places.len() as u64, &encode, &put_settings, &console, begun);
    summary.is_of_files = objects(&places).next().is_none();
    drop(ends);
    Ok(console.finish(summary))
}

/// Starts the command, and opens the destinations of its streams.
fn opened(
    args: &PutArgs,
    opener: &Opener<'_>,
    options: &PutOptions,
    mut ends: Option<&mut Ends>,
    (command, name, count): (Option<Process>, &str, usize),
    (cancel, pace): (&Cancel, &Pace),
    console: &Arc<Console>,
) -> Result<Vec<PutStream>> {
    let status = || Arc::new(PutStatus::new(pace.clone()));
    let Some(directory) = &args.fifo.fifo_dir else {
        // A destination that cannot be opened costs no backup.
        let targets = opener.targets("", options, ends, console)?;
        let input = input(command, name, cancel.flag())?.hashing(args.manifest.wants_sha256());
        let input = input.checking(args.pages.checks(), last_name(&targets).as_bytes());
        return Ok(vec![PutStream { input, targets, status: status() }]);
    };
    let group = StreamGroup::start(command, name, args.allow_empty)?;
    let mut streams = Vec::new();
    for (pipe, input) in open_fifos(&group, directory, count, &cancel.flag())? {
        let targets = opener.targets(&pipe, options, ends.as_deref_mut(), console)?;
        let input = input.hashing(args.manifest.wants_sha256());
        let input = input.checking(args.pages.checks(), pipe.as_bytes());
        streams.push(PutStream { input, targets, status: status() });
    }
    Ok(streams)
}

/// Uploads the streams to `targets` destinations each, and shows progress and results.
fn upload(
    streams: Vec<PutStream>,
    targets: u64,
    encode: &Encode,
    settings: &PutSettings,
    console: &Console,
    begun: Instant,
) -> Summary {
    let statuses: Vec<_> = streams.iter().map(|stream| Arc::clone(&stream.status)).collect();
    let mut requests = RequestCounts::default();
    let mut outcomes = Vec::new();
    let is_object = |target: &PutTarget| matches!(target, PutTarget::Object(_));
    let has_objects = streams.iter().flat_map(|stream| &stream.targets).any(is_object);
    let look = || progress(&statuses, targets);
    for (names, counts, outcome) in watched(console, look, || put_all(streams, encode, settings)) {
        requests.join(counts);
        outcomes.push((names, outcome));
    }
    let mut report = Report { totals: totals(&statuses, targets), ..Report::default() };
    add_outcomes(&mut report, &outcomes, console);
    add_pages(&mut report, outcomes.iter().filter_map(|(_, outcome)| outcome.pages.clone()), console);
    let stored = statuses.iter().map(|status| status.read.load(Ordering::Relaxed)).sum();
    let stored = stored_as(encode.encoding(), stored);
    report.seconds = begun.elapsed().as_secs_f64();
    let mut summary = Summary::new(SummaryCommand::Put, report);
    summary.requests = has_objects.then_some(requests);
    summary.stored = stored;
    summary.digest = digest_of_files(&outcomes).filter(|_| !has_objects);
    summary
}

/// The progress of all streams.
fn progress(statuses: &[Arc<PutStatus>], targets: u64) -> StreamProgress {
    let mut totals = totals(statuses, targets);
    // A part takes long at a low rate, so bytes on their way count.
    let moved = statuses.first().map_or(0, |status| status.pace.outbound.taken());
    totals.sent_bytes =
        totals.sent_bytes.max(moved.min(totals.found_bytes.saturating_sub(totals.resumed_bytes)));
    let in_hand = totals.found_bytes.saturating_sub(totals.sent_bytes + totals.resumed_bytes);
    let ended = statuses.iter().all(|status| status.ended.load(Ordering::Relaxed));
    let waits = !ended && in_hand < IN_HAND * totals.found;
    let limit = statuses.first().map_or(Limit::Source, |status| bottleneck(&status.pace, waits));
    StreamProgress { totals, ended, limit }
}

/// The number of streams.
///
/// # Errors
/// [`ErrorKind::Usage`] if it is not given and the directory has no pipe.
fn streams(args: &PutArgs) -> Result<usize> {
    let Some(directory) = &args.fifo.fifo_dir else { return Ok(1) };
    let count = match args.fifo.fifo_streams {
        Some(count) => count.into(),
        None => count_pipes(directory)?,
    };
    if count == 0 {
        let error = usage("put the streams", "the directory has no named pipe yet");
        return Err(error.on(path(directory)).with_hint("give the number of pipes with --fifo-streams"));
    }
    Ok(count)
}

fn path(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// Uploads all streams in parallel. Returns the object names, the requests and the outcome of each.
fn put_all(
    streams: Vec<PutStream>,
    encode: &Encode,
    settings: &PutSettings,
) -> Vec<(Vec<String>, RequestCounts, PutOutcome)> {
    let names = |stream: &PutStream| -> Vec<String> { stream.targets.iter().map(PutTarget::name).collect() };
    let failed = |error| PutOutcome { input: Some(error), ..PutOutcome::default() };
    let one = |mut stream: PutStream| {
        let outcome = put(&mut stream.input, encode.clone(), &stream.targets, settings, &stream.status);
        let mut outcome = outcome.unwrap_or_else(failed);
        for (target, made) in stream.targets.iter().zip(&mut outcome.targets) {
            if let (PutTarget::File(file), Some(Err(error))) = (target, made) {
                *error = at_host(error.clone(), Side::Destination, &file.at);
            }
        }
        let names = names(&stream);
        let mut requests = RequestCounts::default();
        for target in &stream.targets {
            if let PutTarget::Object(target) = target {
                requests.join(RequestCounts::of(target.client.requests()));
            }
        }
        (names, requests, outcome)
    };
    thread::scope(|scope| {
        let one = &one;
        // In parallel, because the program may write the streams in any order.
        let start = |stream: PutStream| {
            let names = names(&stream);
            (names, haul_threads::spawn(scope, "stream", move || one(stream)))
        };
        let threads: Vec<_> = streams.into_iter().map(start).collect();
        let ended = threads.into_iter().map(|(names, thread)| {
            let ended = thread.and_then(haul_threads::join);
            ended.unwrap_or_else(|error| (names, RequestCounts::default(), failed(error)))
        });
        ended.collect()
    })
}

fn totals(statuses: &[Arc<PutStatus>], targets: u64) -> Totals {
    let mut totals = Totals { found: statuses.len() as u64 * targets, ..Totals::default() };
    for status in statuses {
        totals.found_bytes += status.read.load(Ordering::Relaxed) * targets;
        totals.sent_bytes += status.sent.load(Ordering::Relaxed);
        totals.resumed_bytes += status.resumed.load(Ordering::Relaxed);
    }
    totals
}

/// The digest of the one stream that was written into files.
fn digest_of_files(outcomes: &[(Vec<String>, PutOutcome)]) -> Option<Digest> {
    let [(_, outcome)] = outcomes else { return None };
    outcome.targets.iter().flatten().flatten().find_map(|stored| stored.digest)
}

/// Adds the outcomes to the report. An error of a single destination is fatal; with several each error is listed.
fn add_outcomes(report: &mut Report, outcomes: &[(Vec<String>, PutOutcome)], console: &Console) {
    let alone = report.totals.found == 1;
    // If one stream of a backup fails, the others fail because of it.
    let inputs = || outcomes.iter().filter_map(|(_, outcome)| outcome.input.as_ref());
    let blamed = inputs().find(|error| error.operation() != WITH_OTHERS).cloned();
    report.interrupted = inputs().any(|error| error.kind() == ErrorKind::Cancelled);
    report.fatal = blamed.filter(|_| !report.interrupted);
    for (names, outcome) in outcomes {
        let mut stored = names.iter().zip(&outcome.targets).filter(|(_, made)| matches!(made, Some(Ok(_))));
        if let (Some(fault), Some((name, _))) = (&outcome.unindexed, stored.next())
            && *fault != IndexFault::Unknown
        {
            console.note(&format!("{name}: stored, without an index of its members: {fault}"));
        }
        let with_others = outcome.input.as_ref().filter(|error| error.operation() == WITH_OTHERS);
        for (name, made) in names.iter().zip(&outcome.targets) {
            match made {
                None if report.fatal.is_none() && !report.interrupted => {
                    // The cause is another stream, which is listed itself.
                    if let Some(error) = with_others {
                        report.totals.failed += 1;
                        console.failed(name.as_bytes(), error);
                    }
                }
                Some(Ok(stored)) => {
                    report.totals.copied += 1;
                    report.totals.copied_bytes += stored.len;
                    report_copied(console, name.as_bytes(), stored.len, (stored.digest, outcome.sha256));
                }
                Some(Err(error)) if error.kind() == ErrorKind::Cancelled => report.interrupted = true,
                Some(Err(error)) if alone && report.fatal.is_none() => report.fatal = Some(error.clone()),
                Some(Err(error)) => {
                    report.totals.failed += 1;
                    report.corrupt += u64::from(error.kind() == ErrorKind::Corrupt);
                    console.failed(name.as_bytes(), error);
                }
                None => {}
            }
        }
    }
}

/// Shows the findings about pages of all streams.
fn add_pages(report: &mut Report, found: impl Iterator<Item = PageReport>, console: &Console) {
    let all = found.reduce(|mut all, other| {
        all.join(other);
        all
    });
    let tell = |event: &Event<'_>| match event {
        Event::BadPage(page) => console.bad_page(page.path.as_bytes(), page.page),
        Event::Note(text) => console.note(text),
        Event::Warning(text) => console.warn(text),
        _ => {}
    };
    report.pages = all.map(|all| tell_pages(all, &tell));
}

/// The name that the stream gets at its first destination.
fn last_name(targets: &[PutTarget]) -> String {
    let name = targets.first().map(PutTarget::name).unwrap_or_default();
    name.rsplit('/').next().unwrap_or_default().to_owned()
}

/// The command to run, and its name for messages.
///
/// # Errors
/// None at present.
fn command(words: &[OsString]) -> Result<(Option<Process>, String)> {
    let Some((program, rest)) = words.split_first() else { return Ok((None, "standard input".to_owned())) };
    let name = words.iter().map(|word| printable(word.as_bytes())).collect::<Vec<_>>().join(" ");
    let is_line = rest.is_empty() && program.as_bytes().iter().any(|byte| b" \t\n|&;<>()$`".contains(byte));
    let mut process = if is_line { Process::new("bash") } else { Process::new(program) };
    if is_line {
        // Not every sh has pipefail. Without it, a failed command at the start of a pipe would count as success.
        process.args(["-o", "pipefail", "-c"]).arg(program);
    } else {
        process.args(rest);
    }
    Ok((Some(process), name))
}

fn input(command: Option<Process>, name: &str, cancel: Arc<AtomicBool>) -> Result<Input> {
    if let Some(command) = command {
        return Input::run(command, name, cancel);
    }
    Ok(Input::open(stdin("pipe data into haul, or give a command: haul put DST -- CMD")?, cancel))
}
