//! `haul hash`.

use haul_core::{Error, ErrorKind, Report, Result, Side};

use haul_job::{Observer, each_source, open_sources};

use super::output::showing;
use super::start::{ends_of_run, start_run};
use crate::args::HashArgs;
use crate::exit_code::Exit;
use crate::locations::parse_location;
use crate::manifest::write_line;
use crate::render::{OutputLines, OutputSettings, Start, Summary, SummaryCommand};
use crate::settings::{LinkSettings, one_stdin, scan_options};

/// Prints the manifest of a source.
///
/// # Errors
/// Errors before the run starts; later errors are in the summary.
pub(super) fn run(args: &HashArgs) -> Result<Exit> {
    let at = parse_location(&args.source, &args.given)?;
    one_stdin(&args.filter, None)?;
    let scan = scan_options(&args.filter)?;
    let link = LinkSettings::resolve(&args.link, &args.given)?.with_stores(&args.store, &args.given);
    let output = OutputSettings {
        quiet: args.quiet,
        // On a terminal the lines on standard output replace progress.
        verbose: true,
        progress: showing(args.progress, args.no_progress),
        ..OutputSettings::default()
    };
    let start = Start::new(SummaryCommand::Hash, at.to_string(), None);
    let (console, cancel) = start_run(output, &start)?;
    link.timeout_note([&at].into_iter()).iter().for_each(|text| console.note(text));
    let mut ends = ends_of_run(link.config, &console, &cancel);
    let lines = OutputLines::stdout();
    ends.check_pages(args.pages.checks());
    let mut hash = || -> Result<Report> {
        let sources = open_sources(&mut ends, &at, args.links.links())?;
        let is_pattern = sources.iter().any(|source| source.at != at);
        each_source(&sources, None, &*console, |source, reporter| {
            let root_name = reporter.root_name;
            let mut line = |line: haul_engine::HashLine| {
                let name = match (is_pattern, line.path.as_bytes()) {
                    (_, b"") => source.at.name().to_vec(),
                    (true, path) if !root_name.is_empty() => [root_name, b"/", path].concat(),
                    (_, path) => path.to_vec(),
                };
                lines.write(&write_line(&name, &line.digest));
                if lines.is_closed() { Err(closed(&lines)) } else { Ok(()) }
            };
            let (from, scan, format) = (&*source.source, source.options(&scan), args.format.into());
            Ok(haul_engine::hash(from, &scan, format, &mut line, reporter, &cancel))
        })
    };
    let mut report = hash().unwrap_or_else(|error| Report { fatal: Some(error), ..Report::default() });
    lines.flush();
    if lines.is_closed() && lines.failure().is_none() {
        // A reader that closed the pipe needs no message.
        return Ok(Exit::Incomplete);
    }
    if lines.is_closed() {
        report.fatal.get_or_insert_with(|| closed(&lines));
    }
    let mut summary = Summary::new(SummaryCommand::Hash, report);
    summary.requests = ends.requests();
    Ok(console.finish(summary))
}

fn closed(lines: &OutputLines) -> Error {
    let cause = lines.failure().unwrap_or_else(|| "the reader closed the pipe".to_owned());
    Error::new(ErrorKind::Io, Side::Local, "write the manifest to standard output", cause)
}
