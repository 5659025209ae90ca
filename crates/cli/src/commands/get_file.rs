//! `haul get` of a file, here or on a host.

use std::sync::Arc;
use std::time::Instant;

use haul_core::{BufferPool, Location, Result, Side};
use haul_engine::Cancel;
use haul_job::{Ends, at_host, open_file};
use haul_streams::get::{ContentOutput, GetStatus, Got, InputFile, get_file};

use super::get_output::{file, names, progress, report, stdout};
use super::output::stream_settings;
use super::start::{ends_of_run, paced, start_run};
use super::stream::{report_copied, watched};
use crate::args::GetArgs;
use crate::exit_code::Exit;
use crate::render::{Console, Start, Summary, SummaryCommand};
use crate::settings::{LinkSettings, content_memory};

/// Writes a file to standard output or another file.
///
/// # Errors
/// Errors before the run starts; later errors are in the summary.
pub(super) fn run(args: &GetArgs, at: &Location) -> Result<Exit> {
    let begun = Instant::now();
    let memory = content_memory(&args.reach.memory, 1, 0)?;
    let name = String::from_utf8_lossy(at.name()).into_owned();
    let start = Start::new(
        SummaryCommand::Get,
        at.to_string(),
        args.file().map(|path| file(path, &name).display().to_string()),
    );
    let (console, cancel) = start_run(stream_settings(&args.output, &args.manifest, names(args)), &start)?;
    let given = &args.reach.given;
    let link = LinkSettings::resolve(&args.reach.link(), given)?;
    let mut config = link.compressed(&args.compress, given).config;
    config.pool = BufferPool::new(memory);
    let (pace, _rates) = paced(args.bwlimit.as_ref(), &cancel)?;
    config.set_pace(pace.clone());
    let mut ends = ends_of_run(config, &console, &cancel);
    let status = Arc::new(GetStatus::new(pace));
    let fetched = fetch(args, at, &mut ends, &status, (&console, &cancel));
    let mut digest = None;
    match &fetched {
        // A reader that closed the pipe needs no message.
        Ok((_, Got { checked: None, .. })) => return Ok(Exit::Incomplete),
        Ok((read, got)) => {
            report_copied(&console, read.name.as_bytes(), got.len, (got.digest, got.sha256));
            digest = got.digest;
        }
        Err(_) => {}
    }
    let fetched = fetched.map(|(_, got)| got.len);
    drop(ends);
    let mut summary = Summary::new(SummaryCommand::Get, report(fetched, &status, begun));
    summary.digest = digest;
    summary.is_of_files = true;
    Ok(console.finish(summary))
}

fn fetch(
    args: &GetArgs,
    at: &Location,
    ends: &mut Ends,
    status: &Arc<GetStatus>,
    (console, cancel): (&Console, &Cancel),
) -> Result<(InputFile, Got)> {
    let read = open_file(ends, at)?;
    let output = match args.file() {
        Some(path) => {
            let name = String::from_utf8_lossy(at.name()).into_owned();
            ContentOutput::stage_state(&file(path, &name), &read.state(), read.entry.len)?
        }
        None => stdout()?,
    };
    let output = output.hashing(args.manifest.wants_sha256());
    let got = watched(
        console,
        || progress(read.entry.len, status),
        || get_file(&read, output, status, &cancel.flag()),
    );
    let got = got.map_err(|error| at_host(error, Side::Source, at))?;
    Ok((read, got))
}
