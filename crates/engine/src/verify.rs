//! Compares content by digest: two ends, or one end and a manifest.

use crossbeam_channel::Sender;
use haul_core::{
    Digest, Entry, EntryKind, Error, ErrorKind, RelPath, Report, Reporter, Result, ScanOptions, Side, Source,
};

use crate::answers::one_each;
use crate::cancel::Cancel;
use crate::hash::HashLine;
use crate::inspect::{Inspection, reading};
use crate::meter::Meter;

/// The number of lines of a manifest in one request.
const PER_REQUEST: usize = 256;

/// How two ends are compared.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// Which entries of the source to compare.
    pub scan: ScanOptions,
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    /// The destination does not have the entry.
    Missing(RelPath),
    /// The entry differs, as the text explains.
    Differs(RelPath, String),
    /// The destination has an entry that the source does not have. This is reported, but it is no failure.
    Extra(RelPath),
}

/// Compares every entry of `source` with the same path of `destination`, files by digest. Both ends hash at the same
/// time. Calls `found` for each difference. [`Report::corrupt`] counts the missing and the different entries.
pub fn verify(
    source: &dyn Source,
    destination: &dyn Source,
    options: &VerifyOptions,
    found: &mut dyn FnMut(Checked),
    reporter: &dyn Reporter,
    cancel: &Cancel,
) -> Report {
    let meter = Meter::new(reporter);
    let ask = |entries: Vec<Entry>, results: &Sender<Checked>| {
        Comparison { meter: &meter, source, destination, results }.compare(&entries)
    };
    let mut take = |checked| {
        found(checked);
        Ok(())
    };
    let (scan, streams) = (&options.scan, source.streams() + destination.streams());
    Inspection { meter: &meter, source, scan, cancel, streams }.run(&ask, &mut take);
    if !cancel.is_cancelled() && meter.fatal().is_none() {
        find_extra(&meter, source, destination, scan, cancel, found);
    }
    Inspection::report(&meter, cancel)
}

/// The comparison of one request.
struct Comparison<'a> {
    meter: &'a Meter<'a>,
    source: &'a dyn Source,
    destination: &'a dyn Source,
    results: &'a Sender<Checked>,
}

impl Comparison<'_> {
    fn report(&self, checked: Checked) {
        self.meter.count_corrupt();
        drop(self.results.send(checked));
    }

    /// Compares entries of the source with the same paths of the destination.
    fn compare(&self, entries: &[Entry]) -> Result<()> {
        let paths: Vec<RelPath> = entries.iter().map(|entry| entry.path.clone()).collect();
        let mut to_hash: Vec<&Entry> = Vec::new();
        for (entry, found) in entries.iter().zip(same_length(self.look(&paths)?, paths.len())?) {
            match found {
                Err(error) => self.meter.fail(&entry.path, of_destination(error)),
                Ok(None) => self.report(Checked::Missing(entry.path.clone())),
                Ok(Some(found)) => match difference(entry, &found) {
                    Some(how) => self.report(Checked::Differs(entry.path.clone(), how)),
                    None if entry.is_file() => to_hash.push(entry),
                    None => self.meter.totals().same += 1,
                },
            }
        }
        if to_hash.is_empty() { Ok(()) } else { self.compare_digests(&to_hash) }
    }

    fn look(&self, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
        self.destination.lookup(paths).map_err(of_destination)
    }

    fn compare_digests(&self, entries: &[&Entry]) -> Result<()> {
        let paths: Vec<RelPath> = entries.iter().map(|entry| entry.path.clone()).collect();
        let (copied, original) =
            haul_threads::both("hash", || self.destination.digest(&paths), || self.source.digest(&paths))?;
        let (original, copied) = (
            same_length(original?, paths.len())?,
            same_length(copied.map_err(of_destination)?, paths.len())?,
        );
        for ((entry, original), copied) in entries.iter().zip(original).zip(copied) {
            match (original, copied) {
                (Ok(original), Ok(copied)) if original == copied => self.meter.totals().same(entry.len),
                (Ok(original), Ok(copied)) => {
                    let how = format!("digest {original} at the source, {copied} there");
                    self.report(Checked::Differs(entry.path.clone(), how));
                }
                (Err(error), _) => self.meter.fail(&entry.path, error),
                (_, Err(error)) => self.meter.fail(&entry.path, of_destination(error)),
            }
        }
        Ok(())
    }
}

/// An error of the destination, which is opened like a source.
fn of_destination(error: Error) -> Error {
    if error.side() == Side::Source { error.with_side(Side::Destination) } else { error }
}

/// How two entries differ, without a look at the content of files.
fn difference(source: &Entry, destination: &Entry) -> Option<String> {
    match (&source.kind, &destination.kind) {
        (EntryKind::File, EntryKind::File) if source.len == destination.len => None,
        (EntryKind::File, EntryKind::File) => {
            Some(format!("{} bytes at the source, {} at the destination", source.len, destination.len))
        }
        (source, destination) if source == destination => None,
        (EntryKind::Symlink(_), EntryKind::Symlink(_)) => Some("the links point elsewhere".to_owned()),
        (source, destination) => {
            Some(format!("{} at the source, {} at the destination", kind(source), kind(destination)))
        }
    }
}

fn kind(kind: &EntryKind) -> &'static str {
    match kind {
        EntryKind::File => "a file",
        EntryKind::Dir => "a folder",
        EntryKind::Symlink(_) => "a symbolic link",
        EntryKind::Fifo => "a named pipe",
        EntryKind::Socket => "a socket",
        EntryKind::CharDevice(_) => "a character device",
        EntryKind::BlockDevice(_) => "a block device",
    }
}

/// Checks that there is one answer for each question.
///
/// # Errors
/// `Protocol` if not.
fn same_length<T>(answers: Vec<T>, len: usize) -> Result<Vec<T>> {
    one_each(answers, len, Side::Wire, "compare")
}

/// Reports the entries of the destination that the source does not have.
fn find_extra(
    meter: &Meter<'_>,
    source: &dyn Source,
    destination: &dyn Source,
    scan: &ScanOptions,
    cancel: &Cancel,
    found: &mut dyn FnMut(Checked),
) {
    // Extra entries are not part of the source, so the totals of the run do not count them.
    let own_meter = Meter::new(&Silent);
    let ask = |entries: Vec<Entry>, results: &Sender<RelPath>| {
        let paths: Vec<RelPath> = entries.into_iter().map(|entry| entry.path).collect();
        let originals = same_length(source.lookup(&paths)?, paths.len())?;
        for (path, original) in paths.into_iter().zip(originals) {
            if matches!(original, Ok(None)) {
                drop(results.send(path));
            }
        }
        Ok(())
    };
    let mut take = |path| {
        found(Checked::Extra(path));
        Ok(())
    };
    Inspection { meter: &own_meter, source: destination, scan, cancel, streams: 0 }.run(&ask, &mut take);
    if let Some(error) = own_meter.fatal() {
        meter.abort(of_destination(error));
    }
}

/// Drops all events.
struct Silent;

impl Reporter for Silent {
    fn event(&self, _event: &haul_core::Event<'_>) {}
}

/// Compares the files that a manifest names with `destination`. Calls `found` for each difference.
pub fn check_manifest(
    lines: &mut dyn Iterator<Item = Result<HashLine>>,
    destination: &dyn Source,
    found: &mut dyn FnMut(Checked),
    reporter: &dyn Reporter,
    cancel: &Cancel,
) -> Report {
    let meter = Meter::new(reporter);
    while !cancel.is_cancelled() && meter.fatal().is_none() {
        let Some(wanted) = next_lines(lines, &meter) else { break };
        if wanted.is_empty() {
            continue;
        }
        if let Err(error) = check_lines(wanted, destination, found, &meter) {
            meter.abort(error);
            break;
        }
        meter.progress_of_reading(&reading(destination.streams()));
    }
    Inspection::report(&meter, cancel)
}

/// The next lines of a manifest, without those that cannot be read; `None` at the end.
fn next_lines(lines: &mut dyn Iterator<Item = Result<HashLine>>, meter: &Meter<'_>) -> Option<Vec<HashLine>> {
    let mut good = Vec::new();
    let mut count = 0;
    for line in lines.take(PER_REQUEST) {
        count += 1;
        match line {
            Ok(line) => good.push(line),
            Err(error) => meter.fail(&RelPath::root(), error),
        }
    }
    meter.totals().found += count;
    (count > 0).then_some(good)
}

fn check_lines(
    wanted: Vec<HashLine>,
    destination: &dyn Source,
    found: &mut dyn FnMut(Checked),
    meter: &Meter<'_>,
) -> Result<()> {
    let paths: Vec<RelPath> = wanted.iter().map(|line| line.path.clone()).collect();
    let digests: Vec<Result<Digest>> = same_length(destination.digest(&paths)?, paths.len())?;
    for (HashLine { path, digest: wanted }, digest) in wanted.into_iter().zip(digests) {
        match digest {
            Ok(digest) if digest == wanted => meter.totals().same += 1,
            Ok(digest) => {
                meter.count_corrupt();
                found(Checked::Differs(path, format!("digest {digest} instead of {wanted}")));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                meter.count_corrupt();
                found(Checked::Missing(path));
            }
            Err(error) => meter.fail(&path, error),
        }
    }
    Ok(())
}
