//! `haul rm` of files and directories on SMB shares.

use std::ops::ControlFlow;
use std::sync::Arc;

use haul_core::path::printable;
use haul_core::sync::Mutex;
use haul_core::{Error, ErrorKind, Links, Location, RelPath, Result, Side, Sink, SinkOptions};
use haul_engine::Cancel;
use haul_job::{Ends, OpenedSource, open_sources, source_place};
use haul_spool::Spool;

use crate::args::{HostArgs, LinkArgs, RmArgs};
use crate::render::{OutputLines, print_error, print_line, removed_line};
use crate::settings::{LinkSettings, ObjectSelection, usage};

/// The entries of one request.
const PER_REQUEST: usize = 1024;

/// Removes the entries at these locations. Prints the failures and returns their number.
///
/// # Errors
/// Errors of the options, of reaching a share, and of a location where nothing is.
pub(super) fn remove(
    places: &[Location],
    args: &RmArgs,
    selection: &ObjectSelection<'_>,
    lines: &OutputLines,
) -> Result<usize> {
    if places.is_empty() {
        return Ok(0);
    }
    if args.incomplete {
        return Err(usage("abort uploads", "a share has none").on(places[0].to_string()));
    }
    let whole = |at: &&Location| at.path().iter().all(|byte| b"*/".contains(byte));
    if let Some(all) = places.iter().find(whole) {
        return Err(usage("remove", "this would empty the share")
            .on(all.to_string())
            .with_hint("name a directory"));
    }
    let link = LinkArgs::listing(HostArgs::of_share(args.share.clone(), args.family), args.store.timeout);
    let link = LinkSettings::resolve(&link, &args.given)?;
    let mut ends = Ends::new(link.config, Arc::new(print_line), Cancel::default().flag());
    let mut failed = 0;
    for at in places {
        for source in open_sources(&mut ends, at, Links::default())? {
            let options = SinkOptions { dry_run: args.dry_run, ..SinkOptions::default() };
            let sink = ends.compared(&source.at, &source_place(&source.at), &options)?;
            failed += ShareRemoval { args, source: &source, sink: &*sink, lines }.run(selection)?;
        }
    }
    Ok(failed)
}

/// The removal of the entries at one location.
struct ShareRemoval<'a> {
    args: &'a RmArgs,
    source: &'a OpenedSource,
    sink: &'a dyn Sink,
    lines: &'a OutputLines,
}

/// The entries that the scan found, in its order: a directory before its content.
#[derive(Default)]
struct FoundEntries {
    files: Spool<RelPath>,
    dirs: Spool<RelPath>,
    failed: usize,
}

impl ShareRemoval<'_> {
    fn run(&self, selection: &ObjectSelection<'_>) -> Result<usize> {
        let found = self.find(selection)?;
        let mut failed = found.failed;
        let listed = |error: std::io::Error| Error::list("entries to remove", &error);
        let mut remove = |paths: Vec<RelPath>| -> Result<()> {
            for paths in paths.chunks(PER_REQUEST) {
                failed += self.remove(paths)?;
            }
            Ok(())
        };
        found.files.forwards(|paths| remove(paths).map_err(std::io::Error::other)).map_err(listed)?;
        found.dirs.backwards(|paths| remove(paths).map_err(std::io::Error::other)).map_err(listed)?;
        Ok(failed)
    }

    /// Looks for the entries. Directories go only with all that is in them.
    fn find(&self, selection: &ObjectSelection<'_>) -> Result<FoundEntries> {
        let found = Mutex::new((FoundEntries::default(), Ok(())));
        let takes_all = selection.takes_all();
        self.source.scan(&selection.scan(), &|batch| {
            let mut found = found.lock();
            let (all, ended) = &mut *found;
            for failure in batch.errors {
                print_error(&failure.error);
                all.failed += 1;
            }
            for entry in &batch.entries {
                if entry.is_dir() && !self.args.recursive {
                    let (kind, cause) = (ErrorKind::NotEmpty, "it is a directory, and -r is not given");
                    print_error(&self.error(kind, &entry.path, cause));
                    all.failed += 1;
                    return ControlFlow::Break(());
                }
                let list = if entry.is_dir() { &mut all.dirs } else { &mut all.files };
                if (!entry.is_dir() || takes_all) && ended.is_ok() {
                    *ended = list.push(&entry.path);
                }
            }
            if ended.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let (found, ended) = found.into_inner();
        ended.map_err(|error| Error::list("entries to remove", &error))?;
        Ok(found)
    }

    /// Removes entries, and prints each. Returns the number of failures.
    fn remove(&self, paths: &[RelPath]) -> Result<usize> {
        let mut failed = 0;
        for (path, removed) in paths.iter().zip(self.sink.remove(paths)?) {
            match removed {
                Err(error) => {
                    print_error(&error);
                    failed += 1;
                }
                Ok(()) if self.args.quiet => {}
                Ok(()) => self.lines.write(&removed_line(&self.name_of(path), self.args.dry_run)),
            }
        }
        Ok(failed)
    }

    fn name_of(&self, path: &RelPath) -> String {
        let at = self.source.at.to_string();
        let slash = if path.is_root() || at.ends_with('/') { "" } else { "/" };
        format!("{at}{slash}{}", printable(path.as_bytes()))
    }

    fn error(&self, kind: ErrorKind, path: &RelPath, cause: &str) -> Error {
        Error::new(kind, Side::Destination, "remove", cause).on(self.name_of(path))
    }
}
