//! `--list-only` of `copy` and `sync`: lists the sources as rsync does, and copies nothing.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::sync::Arc;

use haul_core::sync::Mutex;
use haul_core::{Entry, Location, Result, ScanBatch, ScanOptions};
use haul_engine::Cancel;
use haul_job::{Ends, OpenedSource, open_sources};

use super::listing::{SortedLines, print_failures};
use super::start::each;
use crate::args::{LinkArgs, TransferArgs};
use crate::exit_code::Exit;
use crate::locations::parse_location;
use crate::render::{EntryRow, print_line};
use crate::settings::{LinkSettings, one_stdin, scan_options, usage};

/// The sources among the locations of a command: the last one is the destination, unless there is only one.
pub(super) fn sources(ends: &[OsString]) -> &[OsString] {
    match ends {
        [sources @ .., _] if !sources.is_empty() => sources,
        all => all,
    }
}

/// Lists all entries of the sources that the filters leave. If there are several sources, prints the failure of one and
/// goes on.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] with options that it does not heed; errors of the options, of a host, and of the whole
/// scan. Those of single entries are printed.
pub(super) fn run(sources: &[OsString], files_from: Option<&OsString>, args: &TransferArgs) -> Result<Exit> {
    for (is_given, option) in [(args.relative, "--relative"), (files_from.is_some(), "--files-from")] {
        if is_given {
            return Err(usage("use --list-only", format!("it lists whole sources: omit {option}")).on(option));
        }
    }
    one_stdin(&args.filter, None)?;
    let places = sources.iter().map(|text| parse_location(text, &args.given));
    let places = places.collect::<Result<Vec<Location>>>()?;
    let scan = scan_options(&args.filter)?;
    let link = LinkArgs::listing(args.link.host.clone(), args.link.timeout);
    let link = LinkSettings::resolve(&link, &args.given)?.with_stores(&args.store, &args.given);
    link.check_endpoint(places.iter())?;
    link.timeout_note(places.iter()).iter().for_each(|text| print_line(text));
    let mut ends = Ends::new(link.config, Arc::new(print_line), Cancel::default().flag());
    let list = Mutex::new(SourceList { lines: SortedLines::new(), failed: false, json: args.output.json });
    let exit = each(&places, |at| {
        for source in open_sources(&mut ends, at, args.links.links())? {
            one(&source, &scan, &list)?;
            list.lock().lines.print();
        }
        Ok(Exit::Done)
    })?;
    let SourceList { lines, failed, .. } = list.into_inner();
    lines.end(if failed { Exit::Incomplete } else { exit })
}

/// Lists one source. The options are relative to the transfer.
fn one(source: &OpenedSource, scan: &ScanOptions, list: &Mutex<SourceList>) -> Result<()> {
    if source.options(scan).rules.exclude_root(source.is_dir) {
        return Ok(());
    }
    source.scan(scan, &|batch| {
        let mut list = list.lock();
        list.take(source, batch);
        if list.lines.is_closed() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
}

struct SourceList {
    lines: SortedLines,
    failed: bool,
    json: bool,
}

impl SourceList {
    fn take(&mut self, source: &OpenedSource, batch: ScanBatch) {
        self.failed |= print_failures(&source.at, batch.errors);
        for entry in &batch.entries {
            let name = name_of(source, entry);
            let row = EntryRow::new(&name, entry);
            let line = if self.json { row.json() } else { row.rsync_line() };
            self.lines.add(name, line);
        }
    }
}

/// The name of an entry in the transfer.
fn name_of(source: &OpenedSource, entry: &Entry) -> Vec<u8> {
    let root = if source.is_dir { source.root_name() } else { source.at.name() };
    match (root, entry.path.as_bytes()) {
        (b"", b"") => b".".to_vec(),
        (root, b"") => root.to_vec(),
        (b"", path) => path.to_vec(),
        (root, path) => [root, b"/", path].concat(),
    }
}
