//! `haul put`.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::process::Command as Process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use haul_core::path::printable;
use haul_core::{Error, ErrorKind, Limit, Report, Result, Side, Totals};
use haul_engine::Cancel;
use haul_object::put::{Input, PutOutcome, PutSettings, PutStatus, Target, put};

use super::output::settings;
use super::stream::{Standing, open, stored_as, watched};
use crate::args::PutArgs;
use crate::exit_code::Exit;
use crate::render::{Command, Console, RequestCounts, Start, Summary};
use crate::settings::{content_memory, encode, parse_object, put_options, store_settings, usage};
use crate::signals;

/// What is read and not yet sent while the stream itself is what is waited for.
const IN_HAND: u64 = 32 << 20;

/// Moves a stream into objects.
///
/// # Errors
/// If it cannot begin.
pub(super) fn run(args: &PutArgs) -> Result<Exit> {
    let begun = Instant::now();
    let places = args.destinations.iter().map(|text| parse_object(text)).collect::<Result<Vec<_>>>()?;
    let mut seen = HashSet::new();
    if let Some(twice) = places.iter().find(|place| !seen.insert(*place)) {
        return Err(usage("put the stream", "the destination is named twice").on(twice.to_string()));
    }
    let is_beside = |place: &&haul_core::ObjectPlace| {
        let owner = place.key.strip_suffix(".haul");
        owner.is_some_and(|key| {
            seen.contains(&haul_core::ObjectPlace { key: key.to_owned(), ..(*place).clone() })
        })
    };
    if let Some(taken) = places.iter().find(is_beside) {
        let cause = "the digest of another destination may have to go there";
        return Err(usage("put the stream", cause).on(taken.to_string()));
    }
    let encode = encode(&args.encode)?;
    let encoding = encode.encoding();
    let put_settings = PutSettings {
        options: put_options(&args.object, args.no_clobber)?,
        memory: content_memory(&args.memory, encode.least())?,
        max_parts: args.max_parts,
        allow_empty: args.allow_empty,
        resume: args.resume,
    };
    let (command, name) = command(&args.command)?;
    let names: Vec<String> = places.iter().map(ToString::to_string).collect();
    let start = Start {
        command: Command::Put,
        sources: vec![name.clone()],
        destination: Some(names.join(" ")),
        job: None,
    };
    let console = Console::start(settings(&args.output), &start)?;
    let cancel = Cancel::default();
    signals::watch(&cancel, &console)?;
    let stores = store_settings(&args.store);
    let open_one = |place: &haul_core::ObjectPlace| {
        let client = open(place, Side::Destination, &stores, cancel.flag(), Some(&console))?;
        Ok(Target { client, key: place.key.clone() })
    };
    let targets = places.iter().map(open_one).collect::<Result<Vec<_>>>()?;
    let mut input = input(command, &name, cancel.flag())?;
    let status = Arc::new(PutStatus::default());
    let count = targets.len() as u64;
    let look = || {
        let mut totals = totals(&status, count);
        totals.found = count;
        let in_hand = totals.found_bytes.saturating_sub(totals.sent_bytes + totals.resumed_bytes);
        let limit = if in_hand < IN_HAND * count { Limit::Source } else { Limit::Destination };
        Standing { totals, ended: status.ended.load(Ordering::Relaxed), limit }
    };
    let outcome = watched(&console, look, || put(&mut input, encode, &targets, &put_settings, &status));
    drop(input);
    let outcome = outcome.unwrap_or_else(|error| PutOutcome { input: Some(error), targets: Vec::new() });
    let mut report = report(&outcome, &status, &console, &names);
    report.seconds = begun.elapsed().as_secs_f64();
    let mut summary = Summary::new(Command::Put, report);
    let mut requests = RequestCounts::default();
    targets.iter().for_each(|target| requests.add(target.client.requests()));
    summary.requests = Some(requests);
    summary.stored = stored_as(encoding, status.read.load(Ordering::Relaxed));
    Ok(console.finish(summary))
}

fn totals(status: &PutStatus, count: u64) -> Totals {
    Totals {
        found_bytes: status.read.load(Ordering::Relaxed) * count,
        sent_bytes: status.sent.load(Ordering::Relaxed),
        resumed_bytes: status.resumed.load(Ordering::Relaxed),
        ..Totals::default()
    }
}

/// How it ended. One destination alone decides the exit code; of several each is named.
fn report(outcome: &PutOutcome, status: &PutStatus, console: &Console, names: &[String]) -> Report {
    let mut report = Report { totals: totals(status, names.len() as u64), ..Report::default() };
    report.totals.found = names.len() as u64;
    if let Some(error) = &outcome.input {
        report.interrupted = error.kind() == ErrorKind::Cancelled;
        report.fatal = Some(error.clone()).filter(|_| !report.interrupted);
    }
    for (name, made) in names.iter().zip(&outcome.targets) {
        match made {
            Some(Ok(stored)) => {
                report.totals.copied += 1;
                report.totals.copied_bytes += stored.len;
                console.entry(haul_core::event::Action::Copied, name.as_bytes(), stored.len);
            }
            Some(Err(error)) if error.kind() == ErrorKind::Cancelled => report.interrupted = true,
            Some(Err(error)) if names.len() == 1 && report.fatal.is_none() => {
                report.fatal = Some(error.clone());
            }
            Some(Err(error)) => {
                report.totals.failed += 1;
                report.corrupt += u64::from(error.kind() == ErrorKind::Corrupt);
                console.failed(name.as_bytes(), error);
            }
            None => {}
        }
    }
    report
}

/// The command that is run, and its name for people.
///
/// # Errors
/// If there is no shell for it.
fn command(words: &[OsString]) -> Result<(Option<Process>, String)> {
    let Some((program, rest)) = words.split_first() else { return Ok((None, "standard input".to_owned())) };
    let name = words.iter().map(|word| printable(word.as_bytes())).collect::<Vec<_>>().join(" ");
    let is_line = rest.is_empty() && program.as_bytes().iter().any(|byte| b" \t\n|&;<>()$`".contains(byte));
    let mut process = if is_line { Process::new("bash") } else { Process::new(program) };
    if is_line {
        // Plain sh has no pipefail everywhere: with it, a producer that failed before the pipe would pass for done.
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
    let stdin = std::io::stdin();
    if std::io::IsTerminal::is_terminal(&stdin) {
        let error = Error::new(ErrorKind::Usage, Side::Local, "read standard input", "it is a terminal");
        return Err(error.with_hint("pipe something into haul, or name a command: haul put DST -- CMD"));
    }
    let fd = stdin.as_fd().try_clone_to_owned();
    let fd = fd.map_err(|error| Error::io(Side::Source, "read standard input", &error))?;
    Ok(Input::open(fd, cancel))
}
