//! Comparing content by digest.

use crossbeam_channel::Sender;
use haul_core::{
    Digest, Entry, EntryKind, Error, ErrorKind, RelPath, Report, Reporter, Result, ScanOptions, Side, Source,
};

use crate::hash::{each, end};
use crate::meter::{Link, Meter};
use crate::{Cancel, HashLine};

/// Lines of a manifest that are checked by one question.
const ASK: usize = 256;

/// How two ends are compared.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// What is looked at, in the source.
    pub scan: ScanOptions,
}

/// A difference that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    /// The destination lacks it.
    Missing(RelPath),
    /// The content differs; the words say how.
    Differs(RelPath, String),
    /// The destination has it and the source does not: told, not a failure.
    Extra(RelPath),
}

/// Compares everything in `source` with the same names in `destination` by digest (both ends hash at once) and
/// calls `found` for each difference. [`Report::corrupt`] counts what is missing or differs.
pub fn verify(
    source: &dyn Source,
    destination: &dyn Source,
    options: &VerifyOptions,
    found: &mut dyn FnMut(Checked),
    reporter: &dyn Reporter,
    cancel: &Cancel,
) -> Report {
    let meter = Meter::new(reporter);
    let ask =
        |entries: Vec<Entry>, said: &Sender<Checked>| compare(&meter, source, destination, &entries, said);
    let mut say = |checked| {
        found(checked);
        Ok(())
    };
    let streams = source.streams() + destination.streams();
    each(&meter, source, &options.scan, cancel, streams, &ask, &mut say);
    if !cancel.is_cancelled() && meter.fatal().is_none() {
        extras(&meter, source, destination, &options.scan, cancel, found);
    }
    end(&meter, cancel)
}

/// Compares entries of the source with what is under the same names.
fn compare(
    meter: &Meter<'_>,
    source: &dyn Source,
    destination: &dyn Source,
    entries: &[Entry],
    said: &Sender<Checked>,
) -> Result<()> {
    let say = |checked| drop(said.send(checked));
    let paths: Vec<RelPath> = entries.iter().map(|entry| entry.path.clone()).collect();
    let mut to_hash: Vec<&Entry> = Vec::new();
    for (entry, there) in entries.iter().zip(same_length(destination.lookup(&paths)?, paths.len())?) {
        let differs = |how: String| {
            meter.count_corrupt();
            say(Checked::Differs(entry.path.clone(), how));
        };
        match there {
            Err(error) => meter.fail(&entry.path, error),
            Ok(None) => {
                meter.count_corrupt();
                say(Checked::Missing(entry.path.clone()));
            }
            Ok(Some(there)) => match (&entry.kind, &there.kind) {
                (EntryKind::File, EntryKind::File) if entry.len == there.len => to_hash.push(entry),
                (EntryKind::File, EntryKind::File) => {
                    differs(format!("{} bytes at the source, {} at the destination", entry.len, there.len));
                }
                (here, there) if here == there => meter.totals().same += 1,
                (EntryKind::Symlink(_), EntryKind::Symlink(_)) => {
                    differs("the links point elsewhere".to_owned());
                }
                (here, there) => {
                    differs(format!("{} at the source, {} at the destination", kind(here), kind(there)));
                }
            },
        }
    }
    let paths: Vec<RelPath> = to_hash.iter().map(|entry| entry.path.clone()).collect();
    if paths.is_empty() {
        return Ok(());
    }
    let (there, here) = haul_threads::both("hash", || destination.digest(&paths), || source.digest(&paths))?;
    let (here, there) = (same_length(here?, paths.len())?, same_length(there?, paths.len())?);
    for ((entry, here), there) in to_hash.into_iter().zip(here).zip(there) {
        match (here, there) {
            (Ok(here), Ok(there)) if here == there => meter.totals().same(entry.len),
            (Ok(here), Ok(there)) => {
                meter.count_corrupt();
                say(Checked::Differs(
                    entry.path.clone(),
                    format!("digest {here} at the source, {there} there"),
                ));
            }
            (Err(error), _) | (_, Err(error)) => meter.fail(&entry.path, error),
        }
    }
    Ok(())
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

/// An answer that is as long as its question.
fn same_length<T>(answer: Vec<T>, len: usize) -> Result<Vec<T>> {
    if answer.len() == len {
        return Ok(answer);
    }
    let cause = "the answer is not as long as the question";
    Err(Error::new(ErrorKind::Protocol, Side::Wire, "compare", cause))
}

/// Names what the destination has and the source does not.
fn extras(
    meter: &Meter<'_>,
    source: &dyn Source,
    destination: &dyn Source,
    scan: &ScanOptions,
    cancel: &Cancel,
    found: &mut dyn FnMut(Checked),
) {
    // What is extra is not part of what was to be verified, so it is not counted with it.
    let apart = Meter::new(&Silent);
    let ask = |entries: Vec<Entry>, said: &Sender<RelPath>| {
        let paths: Vec<RelPath> = entries.into_iter().map(|entry| entry.path).collect();
        let there = same_length(source.lookup(&paths)?, paths.len())?;
        for (path, there) in paths.into_iter().zip(there) {
            if matches!(there, Ok(None)) {
                drop(said.send(path));
            }
        }
        Ok(())
    };
    let mut say = |path| {
        found(Checked::Extra(path));
        Ok(())
    };
    each(&apart, destination, scan, cancel, 0, &ask, &mut say);
    if let Some(error) = apart.fatal() {
        meter.abort(error);
    }
}

/// Hears nothing.
struct Silent;

impl Reporter for Silent {
    fn event(&self, _event: &haul_core::Event<'_>) {}
}

/// Checks the files that a manifest names against `destination`.
pub fn check_manifest(
    lines: &mut dyn Iterator<Item = Result<HashLine>>,
    destination: &dyn Source,
    found: &mut dyn FnMut(Checked),
    reporter: &dyn Reporter,
    cancel: &Cancel,
) -> Report {
    let meter = Meter::new(reporter);
    let streams = destination.streams();
    while !cancel.is_cancelled() && meter.fatal().is_none() {
        let mut chunk: Vec<(RelPath, Digest)> = Vec::new();
        let mut bad = 0;
        for line in (&mut *lines).take(ASK) {
            match line {
                Ok(line) => chunk.push((line.path, line.digest)),
                Err(error) => {
                    bad += 1;
                    meter.fail(&RelPath::root(), error);
                }
            }
        }
        meter.totals().found += chunk.len() as u64 + bad;
        if chunk.is_empty() {
            if bad == 0 {
                break;
            }
            continue;
        }
        let paths: Vec<RelPath> = chunk.iter().map(|(path, _)| path.clone()).collect();
        let digests = match destination.digest(&paths).and_then(|digests| same_length(digests, paths.len())) {
            Ok(digests) => digests,
            Err(error) => {
                meter.abort(error);
                break;
            }
        };
        for ((path, wanted), digest) in chunk.into_iter().zip(digests) {
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
        meter.progress(&Link { streams, reads: streams > 0, ..Link::default() });
    }
    end(&meter, cancel)
}
