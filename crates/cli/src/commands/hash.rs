//! `haul hash`.

use std::sync::Arc;

use haul_core::{Error, ErrorKind, Report, Result, Side};
use haul_engine::Cancel;

use haul_job::{Ends, Landing, Observer, PartReporter, not_found, root_name, source_place};

use super::output::showing;
use crate::args::HashArgs;
use crate::exit_code::Exit;
use crate::locations::parse_location;
use crate::manifest::write_line;
use crate::render::{Command, Console, Lines, OutputSettings, Start, Summary};
use crate::settings::{LinkSettings, one_stdin, scan_options};
use crate::signals;

/// Prints the manifest of a source.
///
/// # Errors
/// Errors before the run starts; later errors are in the summary.
pub(super) fn run(args: &HashArgs) -> Result<Exit> {
    let at = parse_location(&args.source, &args.given)?;
    one_stdin(&args.filter, None)?;
    let mut scan = scan_options(&args.filter)?;
    let link = LinkSettings::resolve(&args.link, &args.given)?.with_stores(&args.store, &args.given);
    let output = OutputSettings {
        quiet: args.quiet,
        // On a terminal the lines on standard output replace progress.
        verbose: true,
        progress: showing(args.progress, args.no_progress),
        ..OutputSettings::default()
    };
    let start = Start { command: Command::Hash, sources: vec![at.to_string()], destination: None, job: None };
    let console = Console::start(output, &start)?;
    let cancel = Cancel::default();
    signals::watch(&cancel, &console)?;
    let noted = Arc::clone(&console);
    let mut ends = Ends::new(link.config, Arc::new(move |text| noted.note(text)), cancel.flag());
    let lines = Lines::stdout();
    let mut hash = || -> Result<Report> {
        let source = ends.source(&at, &source_place(&at), args.links.links())?;
        let Some(root) = source.root()? else { return Err(not_found(&at, Side::Source)) };
        let landing = Landing { is_dir: root.is_dir(), several: false, listed: false };
        let root_name = root_name(&at, landing).unwrap_or_default();
        scan.rules = scan.rules.iter().map(|rule| rule.below(root_name)).collect();
        let mut line = |line: haul_engine::HashLine| {
            let name = if line.path.is_root() { at.name() } else { line.path.as_bytes() };
            lines.write(&write_line(name, &line.digest));
            if lines.is_closed() { Err(closed(&lines)) } else { Ok(()) }
        };
        let before = haul_core::Totals::default();
        let reporter =
            PartReporter { observer: &*console, root_name, before, last: true, listed: false, bill: None };
        Ok(haul_engine::hash(&*source, &scan, args.format.into(), &mut line, &reporter, &cancel))
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
    let mut summary = Summary::new(Command::Hash, report);
    summary.requests = ends.requests();
    Ok(console.finish(summary))
}

fn closed(lines: &Lines) -> Error {
    let cause = lines.failure().unwrap_or_else(|| "the reader closed the pipe".to_owned());
    Error::new(ErrorKind::Io, Side::Local, "write the manifest to standard output", cause)
}
