//! Lists a directory or a file, on this machine or on a host.

use std::ops::ControlFlow;
use std::sync::Arc;

use haul_core::sync::Mutex;
use haul_core::{Entry, Error, ErrorKind, Links, Location, Result, ScanBatch, ScanOptions, Side};
use haul_engine::Cancel;
use haul_job::{Ends, not_found, source_place};

use crate::args::{LinkArgs, LsArgs};
use crate::exit_code::Exit;
use crate::render::{Lines, Listed, print_error, print_line, total_json, total_line};
use crate::settings::{LinkSettings, Selection};

/// The most bytes of lines that are held back to sort them.
const MOST: usize = 16 << 20;
/// The memory for one of them, besides its bytes.
const EACH: usize = 64;

/// Lists a directory or a file.
///
/// # Errors
/// [`ErrorKind::NotFound`] if there is none; errors of the host and of the whole scan. Those of single entries are
/// printed.
pub(super) fn list(at: &Location, args: &LsArgs) -> Result<Exit> {
    let select = &args.select;
    let _ = Selection::new(select)?;
    let link = LinkSettings::resolve(&LinkArgs::listing(args.host.clone(), args.store.timeout), &args.given)?;
    let mut ends = Ends::new(link.config, Arc::new(print_line), Cancel::default().flag());
    let source = ends.source(at, &source_place(at), Links::default())?;
    let Some(root) = source.root()? else { return Err(not_found(at, Side::Source)) };
    let options = ScanOptions {
        min_size: select.min_size,
        max_size: select.max_size,
        modified_from: select.max_age,
        modified_until: select.min_age,
        max_depth: (!args.recursive && !args.totals_only).then_some(1),
        ..ScanOptions::default()
    };
    let listing = Mutex::new(Listing::new(args, at, root.is_dir()));
    source.scan(&options, &|batch| {
        let mut listing = listing.lock();
        listing.take(batch);
        if listing.lines.is_closed() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    listing.into_inner().end()
}

struct Listing<'a> {
    args: &'a LsArgs,
    at: &'a Location,
    is_dir: bool,
    lines: Lines,
    /// Lines that were not printed yet, with the paths by which they are sorted.
    held: Vec<(Vec<u8>, Vec<u8>)>,
    held_bytes: usize,
    files: u64,
    len: u64,
    failed: bool,
}

impl<'a> Listing<'a> {
    fn new(args: &'a LsArgs, at: &'a Location, is_dir: bool) -> Self {
        let (held, held_bytes, files, len) = (Vec::new(), 0, 0, 0);
        Self { args, at, is_dir, lines: Lines::stdout(), held, held_bytes, files, len, failed: false }
    }

    fn take(&mut self, batch: ScanBatch) {
        for failure in batch.errors {
            self.failed = true;
            let path = failure.path.as_bytes();
            let slash = if path.is_empty() || self.at.path().ends_with(b"/") { "" } else { "/" };
            let name = format!("{}{slash}{}", self.at, haul_core::path::printable(path));
            print_error(&failure.error.on(name));
        }
        for entry in &batch.entries {
            // A directory is listed by its entries.
            if !(self.is_dir && entry.path.is_root()) {
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
        let name = if entry.path.is_root() { self.at.name() } else { entry.path.as_bytes() };
        let listed = Listed::new(name, entry);
        let line = if self.args.json { listed.json() } else { listed.line() };
        self.held_bytes += name.len() + line.len() + EACH;
        self.held.push((name.to_vec(), line));
        if self.held_bytes > MOST {
            self.print();
        }
    }

    fn print(&mut self) {
        self.held.sort_unstable();
        for (_, line) in self.held.drain(..) {
            self.lines.write(&line);
        }
        self.held_bytes = 0;
        self.lines.flush();
    }

    fn end(mut self) -> Result<Exit> {
        self.print();
        if self.args.summarize || self.args.totals_only {
            let (files, len) = (self.files, self.len);
            let total =
                if self.args.json { total_json("files", files, len) } else { total_line("file", files, len) };
            self.lines.write(&total);
            self.lines.flush();
        }
        if let Some(cause) = self.lines.failure() {
            return Err(Error::new(ErrorKind::Io, Side::Local, "write to standard output", cause));
        }
        // A reader that closed the pipe needs no message.
        Ok(if self.failed || self.lines.is_closed() { Exit::Incomplete } else { Exit::Done })
    }
}
