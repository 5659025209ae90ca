//! Lists a directory or a file, on this machine or on a host.

use std::ops::ControlFlow;
use std::sync::Arc;

use haul_core::sync::Mutex;
use haul_core::{Entry, Links, Location, Result, ScanBatch, ScanOptions};
use haul_engine::Cancel;
use haul_job::{Ends, OpenedSource, open_sources};

use crate::args::{LinkArgs, LsArgs};
use crate::commands::listing::{SortedLines, print_failures};
use crate::exit_code::Exit;
use crate::render::{EntryRow, print_line, total_json, total_line};
use crate::settings::{LinkSettings, ObjectSelection};

/// The ends that read the directories and files. Opens nothing yet.
///
/// # Errors
/// Those of the options.
pub(super) fn ends(args: &LsArgs) -> Result<Ends> {
    let link = LinkSettings::resolve(&LinkArgs::listing(args.host.clone(), args.store.timeout), &args.given)?;
    Ok(Ends::new(link.config, Arc::new(print_line), Cancel::default().flag()))
}

/// Lists a directory, a file, or the matches of a pattern, below a heading.
///
/// # Errors
/// [`haul_core::ErrorKind::NotFound`] if there is none; errors of the host and of the whole scan. Those of single
/// entries are printed.
pub(super) fn list(at: &Location, args: &LsArgs, heading: &[u8], ends: &mut Ends) -> Result<Exit> {
    let selection = ObjectSelection::new(&args.select)?;
    let sources = open_sources(ends, at, Links::default())?;
    let listing = Mutex::new(TreeListing::new(args));
    listing.lock().lines.write(heading);
    for source in &sources {
        // Matches are listed by their whole paths.
        let is_match = source.at != *at;
        listing.lock().of(source, is_match);
        source.scan(&options(args, &selection, source, is_match), &|batch| {
            let mut listing = listing.lock();
            listing.take(batch);
            if listing.lines.is_closed() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
    }
    listing.into_inner().end()
}

/// The scan options for a location or for matches.
fn options(
    args: &LsArgs,
    selection: &ObjectSelection<'_>,
    source: &OpenedSource,
    is_match: bool,
) -> ScanOptions {
    // A match is listed itself, unless the pattern ends in a slash.
    let depth = u32::from(!is_match || source.at.means_contents());
    let max_depth = (!args.recursive && !args.totals_only).then_some(depth);
    ScanOptions { max_depth, ..selection.scan() }
}

struct TreeListing<'a> {
    args: &'a LsArgs,
    /// The location that is listed now.
    at: Location,
    /// The path before each listed name.
    before: Vec<u8>,
    /// The root is not listed itself.
    omits_root: bool,
    lines: SortedLines,
    files: u64,
    len: u64,
    failed: bool,
}

impl<'a> TreeListing<'a> {
    fn new(args: &'a LsArgs) -> Self {
        Self {
            args,
            at: Location::Local(Vec::new()),
            before: Vec::new(),
            omits_root: false,
            lines: SortedLines::new(),
            files: 0,
            len: 0,
            failed: false,
        }
    }

    /// Goes on with another location.
    fn of(&mut self, source: &OpenedSource, is_match: bool) {
        self.at = source.at.clone();
        // A directory is listed by its entries.
        self.omits_root = source.is_dir && (!is_match || source.at.means_contents());
        self.before.clear();
        if is_match {
            self.before.extend_from_slice(source.at.path());
        }
    }

    fn take(&mut self, batch: ScanBatch) {
        self.failed |= print_failures(&self.at, batch.errors);
        for entry in &batch.entries {
            if !(self.omits_root && entry.path.is_root()) {
                self.add(entry);
            }
        }
    }

    fn add(&mut self, entry: &Entry) {
        if entry.is_file() {
            self.files += 1;
            self.len = self.len.saturating_add(entry.len);
        }
        if self.args.totals_only {
            return;
        }
        let name = self.name_of(entry);
        let listed = EntryRow::new(&name, entry);
        let line = if self.args.json { listed.json() } else { listed.line() };
        self.lines.add(name, line);
    }

    fn name_of(&self, entry: &Entry) -> Vec<u8> {
        match (&self.before[..], entry.path.as_bytes()) {
            (b"", b"") if self.at.name().is_empty() => {
                // A file, named with a slash at its end, which some servers accept.
                let mut names = self.at.path().rsplit(|byte| *byte == b'/');
                names.find(|name| !name.is_empty()).unwrap_or_default().to_vec()
            }
            (b"", b"") => self.at.name().to_vec(),
            (before, b"") => before.to_vec(),
            (before, path) if before.is_empty() || before.ends_with(b"/") => [before, path].concat(),
            (before, path) => [before, b"/", path].concat(),
        }
    }

    fn end(mut self) -> Result<Exit> {
        if self.args.summarize || self.args.totals_only {
            let (files, len) = (self.files, self.len);
            let total =
                if self.args.json { total_json("files", files, len) } else { total_line("file", files, len) };
            self.lines.write(&total);
        }
        self.lines.end(if self.failed { Exit::Incomplete } else { Exit::Done })
    }
}
