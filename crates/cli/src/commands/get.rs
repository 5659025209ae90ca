//! `haul get`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use haul_core::{ErrorKind, Location, ObjectPlace, Report, Result, Side, Totals};
use haul_engine::Cancel;
use haul_job::{RequestCounts, is_key_pattern, only_object};
use haul_object::{Client, Object};
use haul_streams::get::{GetSettings, GetStatus, Got, Output, find, get};

use super::get_file;
use super::get_output::{file, names, progress, stdout};
use super::output::stream_settings;
use super::stream::{open, report_object, stored_as, watched};
use crate::args::GetArgs;
use crate::exit_code::Exit;
use crate::locations::parse_location;
use crate::render::{Command, Console, Start, Summary};
use crate::settings::{check_get, check_object, content_memory, identities, store_settings, usage};
use crate::signals;

/// Writes an object to standard output or a file.
///
/// # Errors
/// Errors before the run starts; later errors are in the summary.
pub(super) fn run(args: &GetArgs) -> Result<Exit> {
    let begun = Instant::now();
    let at = parse_location(&args.source, &args.given)?;
    check_get(args, &at)?;
    let Location::Object(place) = at else { return get_file::run(args, &at) };
    check_object(&place)?;
    let get_settings = GetSettings {
        memory: content_memory(&args.memory, 1, 0)?,
        raw: args.decode.raw,
        keys: identities(&args.decode)?,
        encrypted_only: args.decode.encrypted_only(),
    };
    if args.output.json && args.file.is_none() {
        return Err(usage("write JSON", "the content goes to standard output: give a FILE"));
    }
    let start = Start {
        command: Command::Get,
        sources: vec![place.to_string()],
        destination: args.file.as_deref().map(|path| {
            let is_open = is_key_pattern(&place.key);
            if is_open { path.display().to_string() } else { file(path, &place.key).display().to_string() }
        }),
        job: None,
    };
    let console = Console::start(stream_settings(&args.output, &args.manifest, names(args)), &start)?;
    let cancel = Cancel::default();
    signals::watch(&cancel, &console)?;
    let stores = store_settings(&args.store, &args.given, &place);
    let client = open(&place, Side::Source, &stores, cancel.flag(), Some(&console))?;
    let mut report = Report { totals: Totals { found: 1, ..Totals::default() }, ..Report::default() };
    let status = Arc::new(GetStatus::default());
    let mut stored = None;
    match fetch(args, (&client, &place), &get_settings, &status, &console) {
        // A reader that closed the pipe needs no message.
        Ok((_, Got { checked: None, .. })) => return Ok(Exit::Incomplete),
        Ok((object, got)) => {
            report_object(&console, &object, got);
            report.totals.copied = 1;
            report.totals.copied_bytes = got.len;
            stored = stored_as(got.encoding, object.len);
        }
        Err(error) if error.kind() == ErrorKind::Cancelled => report.interrupted = true,
        Err(error) => {
            report.corrupt = u64::from(error.kind() == ErrorKind::Corrupt);
            report.fatal = Some(error);
        }
    }
    report.totals.sent_bytes = status.written.load(Ordering::Relaxed);
    report.totals.resumed_bytes = status.resumed.load(Ordering::Relaxed);
    report.seconds = begun.elapsed().as_secs_f64();
    let mut summary = Summary::new(Command::Get, report);
    let mut requests = RequestCounts::default();
    requests.add(client.requests());
    summary.requests = Some(requests);
    summary.stored = stored;
    Ok(console.finish(summary))
}

fn fetch(
    args: &GetArgs,
    (client, place): (&Client, &ObjectPlace),
    settings: &GetSettings,
    status: &Arc<GetStatus>,
    console: &Console,
) -> Result<(Object, Got)> {
    let object = find(client, &only_object(client, place)?)?;
    let output = match &args.file {
        Some(path) => Output::stage(&file(path, &object.key), &object, settings.raw)?,
        None => stdout()?,
    };
    let output = output.hashing(args.manifest.wants_sha256());
    let got =
        watched(console, || progress(object.len, status), || get(client, &object, output, settings, status))?;
    Ok((object, got))
}
