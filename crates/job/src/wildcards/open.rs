//! Opens the source that a command reads, or all sources that match a pattern.

use std::slice;
use std::sync::Arc;

use haul_core::source::ScanVisit;
use haul_core::{
    Entry, Error, ErrorKind, Links, Location, RelPath, Report, Result, ScanOptions, Side, Source,
};

use super::expand::{expand, is_pattern};
use crate::ends::Ends;
use crate::merge::merge;
use crate::mistakes::{at_host, file_with_slash, not_found};
use crate::observer::Observer;
use crate::part::PartReporter;
use crate::place::{Landing, destination_place, dir_place, root_name, source_place};
use crate::siblings::{SiblingGroup, group, join, with_path};

/// A source that is open, or the directory of several that match a pattern.
pub struct OpenedSource {
    /// The source.
    pub source: Arc<dyn Source>,
    /// The location of its root.
    pub at: Location,
    /// The names of the matches in the directory; empty if the command reads the root.
    pub names: Vec<RelPath>,
    /// Whether the root is a directory.
    pub is_dir: bool,
    /// Whether there are more.
    several: bool,
    /// Whether a list names the paths below it that are read.
    listed: bool,
}

impl OpenedSource {
    /// The same source, below which a list names the paths.
    #[must_use]
    pub fn listed(self) -> Self {
        Self { is_dir: true, listed: true, ..self }
    }

    /// The name of the root in a transfer; empty if it has none.
    #[must_use]
    pub fn root_name(&self) -> &[u8] {
        if self.names.is_empty() { root_name(&self.at, self.landing()).unwrap_or_default() } else { b"" }
    }

    /// The place of the root at a destination, where a copy writes it.
    #[must_use]
    pub fn place_at(&self, destination: &Location) -> haul_core::Place {
        if self.names.is_empty() {
            destination_place(&self.at, destination, self.landing())
        } else {
            dir_place(destination)
        }
    }

    /// The options of a scan, which are relative to the transfer, as this source takes them.
    #[must_use]
    pub fn options(&self, scan: &ScanOptions) -> ScanOptions {
        ScanOptions { rules: scan.rules.below(self.root_name()), starts: self.names.clone(), ..scan.clone() }
    }

    /// Scans the source, with options that are relative to the transfer. The directory of matches is left out.
    ///
    /// # Errors
    /// As [`Source::scan`].
    pub fn scan(&self, scan: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
        self.source.scan(&self.options(scan), &|mut batch| {
            batch.entries.retain(|entry| self.names.is_empty() || !entry.path.is_root());
            visit(batch)
        })
    }

    /// The location of an entry of this source, for messages and lists.
    #[must_use]
    pub fn name_of(&self, entry: &Entry) -> String {
        if entry.path.is_root() { self.at.to_string() } else { join(&self.at, &entry.path).to_string() }
    }

    fn landing(&self) -> Landing {
        Landing { is_dir: self.is_dir, several: self.several, listed: self.listed }
    }
}

/// Opens a source; of a pattern, all that match. Matches in one directory are opened together.
///
/// # Errors
/// [`ErrorKind::NotFound`] if there is no such entry, or none matches; errors of opening and listing.
pub fn open_sources(ends: &mut Ends, at: &Location, links: Links) -> Result<Vec<OpenedSource>> {
    let matches = expand(ends, slice::from_ref(at), links)?;
    let several = matches.len() > 1;
    let mut opened = Vec::new();
    for group in group(&matches) {
        let (at, names) = match group {
            SiblingGroup::One(at) => (at, Vec::new()),
            SiblingGroup::Siblings { parent, names } => (parent, names),
        };
        let (source, root) = open_source(ends, &at, links)?;
        opened.push(OpenedSource { source, at, names, is_dir: root.is_dir(), several, listed: false });
    }
    Ok(opened)
}

/// Calls `run` with each source of a command, which may have a destination, and joins the reports. Ends early if the command cannot go on.
///
/// # Errors
/// Those of `run`.
pub fn each_source(
    sources: &[OpenedSource],
    destination: Option<&Location>,
    observer: &dyn Observer,
    mut run: impl FnMut(&OpenedSource, &PartReporter<'_>) -> Result<Report>,
) -> Result<Report> {
    let mut report = Report::default();
    for (number, source) in (1..).zip(sources) {
        let reporter = PartReporter {
            observer,
            root_name: source.root_name(),
            source: Some(&source.at),
            destination,
            before: report.totals,
            last: number == sources.len(),
            listed: source.listed,
            bill: None,
        };
        let part = run(source, &reporter)?;
        report.seconds += part.seconds;
        merge(&mut report, part);
        if report.fatal.is_some() || report.interrupted {
            break;
        }
    }
    Ok(report)
}

/// Opens a source that is no pattern, and its root.
///
/// # Errors
/// [`ErrorKind::NotFound`] if it does not exist; errors of opening it.
pub(crate) fn open_source(ends: &mut Ends, at: &Location, links: Links) -> Result<(Arc<dyn Source>, Entry)> {
    let source = ends.source(at, &source_place(at), links)?;
    let root = source.root().map_err(|error| at_host(error, Side::Source, at))?;
    match root {
        Some(root) => Ok((source, root)),
        None => Err(missing(ends, at, links)),
    }
}

/// The error of a source that does not exist.
fn missing(ends: &mut Ends, at: &Location, links: Links) -> Error {
    if is_pattern(at) {
        let cause = "no entry matches the pattern";
        return Error::new(ErrorKind::NotFound, Side::Source, "find", cause).on(at.to_string());
    }
    match without_slash(at).map(|file| open_source(ends, &file, links)) {
        Some(Ok((_, root))) if !root.is_dir() => file_with_slash(at, Side::Source),
        _ => not_found(at, Side::Source),
    }
}

/// The location without slashes at its end; `None` if it has none, or is a root.
fn without_slash(at: &Location) -> Option<Location> {
    let path = at.path();
    let end = path.iter().rposition(|byte| *byte != b'/')? + 1;
    (end < path.len() && !matches!(at, Location::Object(_))).then(|| with_path(at, path[..end].to_vec()))
}
