//! `haul pipe`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use haul_core::{BufferPool, Error, ErrorKind, Report, Result, Totals};
use haul_engine::Cancel;
use haul_job::{Ends, Observer, PipeProgram, run_programs};
use haul_streams::pipe::{Listeners, PipeSettings, PipeStatus, Piped, pipe};

use super::get_output::bottleneck;
use super::output::settings;
use super::start::{ends_of_run, paced, start_run};
use super::stream::{StreamProgress, report_copied, watched};
use crate::args::PipeArgs;
use crate::exit_code::Exit;
use crate::render::{Console, Start, Summary, SummaryCommand};
use crate::settings::{LinkSettings, programs};

/// The advice of a pipe that has failed.
const NOT_RESUMED: &str =
    "a pipe cannot be resumed: remove the output of the program that reads, and start again";

/// Sends the output of one program to the other one.
///
/// # Errors
/// Errors before the run starts; later errors are in the summary.
pub(super) fn run(args: &PipeArgs) -> Result<Exit> {
    let begun = Instant::now();
    let (from, into) = programs(args)?;
    let mut config =
        LinkSettings::resolve(&args.link, &args.given)?.compressed(&args.compress, &args.given).config;
    let buffers = BufferPool::new(config.peer.max_memory).count();
    let settings_of_pipe = PipeSettings::within(buffers, from.host.is_some(), args.allow_empty);
    let start = Start::new(SummaryCommand::Pipe, shown(&from), Some(shown(&into)));
    let (console, cancel) = start_run(settings(&args.output), &start)?;
    let (pace, _rates) = paced(args.bwlimit.as_ref(), &cancel)?;
    config.set_pace(pace.clone());
    let mut ends = ends_of_run(config, &console, &cancel);
    let status = Arc::new(PipeStatus::new(pace));
    let piped = piped(args, &mut ends, (&from, &into), settings_of_pipe, &status, (&console, &cancel));
    drop(ends);
    let mut report = Report { totals: progress(&status).totals, ..Report::default() };
    let mut digest = None;
    match piped {
        Ok(Piped { len, digest: found }) => {
            (report.totals.copied, report.totals.copied_bytes) = (1, len);
            report_copied(&console, start.sources[0].as_bytes(), len, (Some(found), None));
            digest = Some(found);
        }
        Err(error) if error.kind() == ErrorKind::Cancelled => {
            report.interrupted = true;
            console.warn(NOT_RESUMED);
        }
        Err(error) => {
            report.corrupt = u64::from(error.kind() == ErrorKind::Corrupt);
            report.fatal = Some(error);
        }
    }
    report.seconds = begun.elapsed().as_secs_f64();
    let mut summary = Summary::new(SummaryCommand::Pipe, report);
    summary.digest = digest;
    Ok(console.finish(summary))
}

fn shown(of: &PipeProgram) -> String {
    let name = haul_program::named(&of.program);
    of.host.as_ref().map_or_else(|| name.clone(), |host| format!("{host}: {name}"))
}

/// Starts both programs and moves the stream.
fn piped(
    args: &PipeArgs,
    ends: &mut Ends,
    (from, into): (&PipeProgram, &PipeProgram),
    settings: PipeSettings,
    status: &Arc<PipeStatus>,
    (console, cancel): (&Arc<Console>, &Cancel),
) -> Result<Piped> {
    let flag = cancel.flag();
    let programs = run_programs(ends, (from, into), args.output.json, settings.window, &flag)?;
    let said = Arc::clone(console);
    let show: Arc<dyn Fn(&str) + Send + Sync> = Arc::new(move |line| said.warn(line));
    let listeners = Listeners::start(&programs, (&from.label(), &into.label()), &show)?;
    let piped =
        watched(console, || progress(status), || pipe(&programs, settings, status, &listeners, &flag));
    listeners.end();
    piped.map_err(advised)
}

/// A failed pipe is no usage error: it may have begun.
fn advised(error: Error) -> Error {
    match error.hint() {
        Some(hint) if error.kind() != ErrorKind::Unreachable => {
            let hint = format!("{hint}; {NOT_RESUMED}");
            error.with_hint(hint)
        }
        _ => error.with_hint(NOT_RESUMED),
    }
}

fn progress(status: &PipeStatus) -> StreamProgress {
    let (read, sent) = (status.read.load(Ordering::Relaxed), status.sent.load(Ordering::Relaxed));
    let totals = Totals { found: 1, found_bytes: read, sent_bytes: sent, ..Totals::default() };
    let limit = bottleneck(&status.pace, read.saturating_sub(sent) < 2 * haul_core::SLICE_LEN);
    StreamProgress { totals, ended: status.ended.load(Ordering::Relaxed), limit }
}
