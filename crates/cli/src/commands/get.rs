//! `haul get`.

use std::sync::Arc;
use std::time::Instant;

use haul_core::{Location, ObjectPlace, Result, Side};
use haul_job::{RequestCounts, is_key_pattern};
use haul_object::{Client, Object};
use haul_streams::get::{ContentOutput, GetSettings, GetStatus, Got, get, get_chunks};
use haul_streams::xbcloud::ChunkObjects;

use super::get_file;
use super::get_output::{file, get_settings, names, progress, report, stdout};
use super::output::stream_settings;
use super::start::{paced, start_run};
use super::stored_stream::{StoredStream, find_stream};
use super::stream::{open, report_object, stored_as, watched};
use crate::args::GetArgs;
use crate::exit_code::Exit;
use crate::locations::parse_location;
use crate::render::{Console, Start, Summary, SummaryCommand};
use crate::settings::{check_get, store_settings_of, usage};

/// Writes an object to standard output or a file.
///
/// # Errors
/// Errors before the run starts; later errors are in the summary.
pub(super) fn run(args: &GetArgs) -> Result<Exit> {
    let begun = Instant::now();
    let at = parse_location(&args.source, &args.reach.given)?;
    check_get(args, &at)?;
    let Location::Object(place) = at else { return get_file::run(args, &at) };
    let get_settings = get_settings(args, 1)?;
    let start = Start::new(
        SummaryCommand::Get,
        place.to_string(),
        args.file().map(|path| {
            let is_open = is_key_pattern(&place.key);
            if is_open {
                path.display().to_string()
            } else {
                file(path, place.key.trim_end_matches('/')).display().to_string()
            }
        }),
    );
    let (console, cancel) = start_run(stream_settings(&args.output, &args.manifest, names(args)), &start)?;
    let (pace, _rates) = paced(args.bwlimit.as_ref(), &cancel)?;
    let stores = store_settings_of(&args.reach, &place, &pace);
    let client = Arc::new(open(&place, Side::Source, &stores, cancel.flag(), Some(&console))?);
    let status = Arc::new(GetStatus::new(pace));
    let fetched = fetch(args, (&client, &place), &get_settings, &status, &console);
    let mut stored = None;
    match &fetched {
        // A reader that closed the pipe needs no message.
        Ok((_, Got { checked: None, .. })) => return Ok(Exit::Incomplete),
        Ok((object, got)) => {
            report_object(&console, object, *got);
            stored = stored_as(got.encoding, object.len);
        }
        Err(_) => {}
    }
    let mut summary =
        Summary::new(SummaryCommand::Get, report(fetched.map(|(_, got)| got.len), &status, begun));
    summary.requests = Some(RequestCounts::of(client.requests()));
    summary.stored = stored;
    Ok(console.finish(summary))
}

fn fetch(
    args: &GetArgs,
    (client, place): (&Arc<Client>, &ObjectPlace),
    settings: &GetSettings,
    status: &Arc<GetStatus>,
    console: &Console,
) -> Result<(Object, Got)> {
    let object = match find_stream(client, place)? {
        StoredStream::Object(object) => object,
        StoredStream::Chunks(chunks) => return fetch_chunks(args, &chunks, settings, status, console),
        StoredStream::Several(_) => {
            let error = usage("get the stream", "it is a backup of several streams").on(place.to_string());
            return Err(error.with_hint("use --unpack DIR, or --fifo-dir DIR"));
        }
    };
    let output = match args.file() {
        Some(path) => ContentOutput::stage(&file(path, &object.key), &object, settings.raw)?,
        None => stdout()?,
    };
    let output = output.hashing(args.manifest.wants_sha256());
    let got =
        watched(console, || progress(object.len, status), || get(client, &object, output, settings, status))?;
    Ok((object, got))
}

/// Writes a stream that xbcloud stored.
fn fetch_chunks(
    args: &GetArgs,
    chunks: &ChunkObjects,
    settings: &GetSettings,
    status: &Arc<GetStatus>,
    console: &Console,
) -> Result<(Object, Got)> {
    chunks.check_complete()?;
    let output = match args.file() {
        Some(path) => {
            let state = chunks.state();
            ContentOutput::stage_state(&file(path, chunks.key()), &state.0, chunks.len())?
        }
        None => stdout()?,
    };
    let output = output.hashing(args.manifest.wants_sha256());
    let look = || progress(chunks.len(), status);
    let got = watched(console, look, || get_chunks(chunks, output, settings, status))?;
    Ok((Object { key: chunks.key().to_owned(), len: chunks.len(), ..Object::default() }, got))
}
