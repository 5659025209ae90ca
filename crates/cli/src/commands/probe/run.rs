//! Runs `haul probe`.

use std::time::{Duration, Instant};

use haul_core::{ErrorKind, Report, Result};

use super::state::Probe;
use crate::args::ProbeArgs;
use crate::commands::output::settings;
use crate::commands::start::{ends_of_run, start_run};
use crate::exit_code::Exit;
use crate::locations::parse_file_location;
use crate::render::{Start, Summary, SummaryCommand};
use crate::settings::{LinkSettings, one_stdin, scan_options, usage};

/// Measures source, destination and link, or looks for problems.
///
/// # Errors
/// Errors before the run starts; later errors are in the summary.
pub(in crate::commands) fn run(args: &ProbeArgs) -> Result<Exit> {
    let parse = |text| parse_file_location(text, &args.given);
    let (source, destination) = match args.ends.as_slice() {
        [source, destination] => (parse(source)?, Some(parse(destination)?)),
        [one] if args.doctor => (parse(one)?, None),
        _ => return Err(usage("probe", "it takes two locations, SRC and DST; with --doctor SRC is enough")),
    };
    one_stdin(&args.filter, None)?;
    let scan = scan_options(&args.filter)?;
    let link = LinkSettings::resolve(&args.link, &args.given)?.explaining(true);
    let start =
        Start::new(SummaryCommand::Probe, source.to_string(), destination.as_ref().map(ToString::to_string));
    let (console, cancel) = start_run(settings(&args.output), &start)?;
    let ends = ends_of_run(link.config, &console, &cancel);
    let quick = args.quick.map(|seconds| Duration::from_secs(seconds.into()));
    let streams = args.link.connections.streams;
    let mut probe = Probe { ends, scan, quick, streams, console, cancel, begun: Instant::now() };
    let ended = match &destination {
        Some(destination) if !args.doctor => probe.measure(&source, destination).map(|()| false),
        destination => probe.examine(&source, destination.as_ref()),
    };
    let seconds = probe.begun.elapsed().as_secs_f64();
    let (report, bad) = match ended {
        Ok(bad) => (Report { seconds, ..Report::default() }, bad),
        Err(error) if error.kind() == ErrorKind::Cancelled => {
            (Report { interrupted: true, seconds, ..Report::default() }, false)
        }
        Err(error) => (Report { fatal: Some(error), seconds, ..Report::default() }, false),
    };
    let mut summary = Summary::new(SummaryCommand::Probe, report);
    summary.bad = bad;
    Ok(probe.console.finish(summary))
}
