//! Finds the extraneous entries of the destination (those that the source does not have), and which of them may be
//! deleted.

use haul_core::sync::Mutex;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use haul_core::{Entry, Error, ErrorKind, RelPath, Result, ScanBatch, ScanOptions, Side, Source, filter};
use haul_spool::{Sorter, Spool};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::deferred::Deferred;
use crate::run::Run;

/// The entries that may be deleted, in an order in which they can be.
#[derive(Default)]
pub(crate) struct Extra {
    pub(crate) files: Spool<RelPath>,
    /// Directories in which nothing stays, innermost first.
    pub(crate) dirs: Spool<RelPath>,
    /// The number of extraneous directories that stay because an entry in them stays.
    pub(crate) kept_dirs: u64,
    /// The paths of deferred entries whose directory stays.
    pub(crate) blocked: BTreeSet<RelPath>,
}

/// What is known about one path at the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Place {
    /// An extraneous directory.
    ExtraDir,
    /// An entry that stays.
    Kept,
    /// A directory that a deferred entry is to replace.
    Deferred,
}

/// Sorted, a directory comes after all entries in it.
type Places = Sorter<(Reverse<ByteBuf>, Place)>;

/// A sort key: without the `Reverse`, the entries in a directory would follow the directory.
fn key(path: &RelPath) -> Reverse<ByteBuf> {
    Reverse(ByteBuf::from(replaced(path.as_bytes(), b'/', 0)))
}

/// The path of a sort key.
///
/// # Errors
/// `Protocol` if it is no valid path.
fn path_of(key: &Reverse<ByteBuf>) -> Result<RelPath> {
    let bytes = replaced(&key.0, 0, b'/');
    RelPath::new(&bytes)
        .map_err(|bad| Error::new(ErrorKind::Protocol, Side::Destination, "list", bad.to_string()).on(&bytes))
}

fn replaced(bytes: &[u8], from: u8, to: u8) -> Vec<u8> {
    bytes.iter().map(|byte| if *byte == from { to } else { *byte }).collect()
}

/// Whether the first key is of an entry below the directory of the second key.
fn is_below(key: &[u8], dir: &[u8]) -> bool {
    key.strip_prefix(dir).is_some_and(|rest| dir.is_empty() || rest.first() == Some(&0))
}

/// The error for a list that cannot be written or read.
pub(crate) fn list_error(error: &std::io::Error) -> Error {
    Error::list("removals", error)
}

/// Lists the destination, asks the source about each path, and sorts the result.
///
/// # Errors
/// The error of an end that cannot answer; `Io` if a list cannot be written.
pub(crate) fn find(run: &Run<'_>, view: &dyn Source, scan: &ScanOptions) -> Result<Extra> {
    let Found { files, mut places, failure } = list(run, view, scan)?;
    if let Some(error) = failure {
        return Err(error);
    }
    for path in run.deferred.iter().flat_map(Deferred::paths) {
        places.push((key(&path), Place::Deferred)).map_err(|e| list_error(&e))?;
    }
    let mut extra = Extra { files, ..Extra::default() };
    let mut last_kept: Option<ByteBuf> = None;
    for place in places.sorted().map_err(|e| list_error(&e))? {
        let (key, place) = place.map_err(|e| list_error(&e))?;
        // In this order a directory directly follows the entries in it.
        let holds_kept = last_kept.as_ref().is_some_and(|kept| is_below(kept, &key.0));
        match place {
            Place::Kept => {}
            Place::ExtraDir if holds_kept => extra.kept_dirs += 1,
            Place::ExtraDir => {
                extra.dirs.push(&path_of(&key)?).map_err(|e| list_error(&e))?;
                continue;
            }
            Place::Deferred if holds_kept => {
                extra.blocked.insert(path_of(&key)?);
            }
            Place::Deferred => continue,
        }
        last_kept = Some(key.0);
    }
    Ok(extra)
}

/// What the listing of the destination has found.
#[derive(Default)]
struct Found {
    files: Spool<RelPath>,
    places: Places,
    failure: Option<Error>,
}

impl Found {
    fn add(&mut self, asked: Asked) -> std::io::Result<()> {
        for entry in asked.extra {
            if entry.is_dir() {
                self.places.push((key(&entry.path), Place::ExtraDir))?;
            } else {
                self.files.push(&entry.path)?;
            }
        }
        for path in asked.kept {
            self.places.push((key(&path), Place::Kept))?;
        }
        Ok(())
    }
}

fn list(run: &Run<'_>, view: &dyn Source, scan: &ScanOptions) -> Result<Found> {
    let protection = Protection::new(run, scan)?;
    let found = Mutex::new(Found::default());
    let options = ScanOptions { tells_left_out: true, ..scan.whole_tree() };
    view.scan(&options, &|batch: ScanBatch| {
        run.guard.count_listed(&batch);
        let asked = ask(run, &protection, batch);
        let mut found = found.lock();
        let added = asked.and_then(|asked| found.add(asked).map_err(|e| list_error(&e)));
        if let Err(error) = added {
            found.failure.get_or_insert(error);
        }
        if found.failure.is_some() || run.stopped() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    Ok(found.into_inner())
}

/// The entries of a batch that the source does not have, and paths that stay.
struct Asked {
    extra: Vec<Entry>,
    kept: Vec<RelPath>,
}

fn ask(run: &Run<'_>, protection: &Protection<'_>, batch: ScanBatch) -> Result<Asked> {
    if let Some(failure) = batch.errors.into_iter().next() {
        return Err(failure.error.with_side(Side::Destination));
    }
    let mut kept = batch.left_out;
    let paths: Vec<RelPath> = batch.entries.iter().map(|entry| entry.path.clone()).collect();
    let exists = run.source.holds(&paths)?;
    let mut extra: Vec<Entry> = Vec::new();
    let is_backup = |path: &RelPath| run.backups.as_ref().is_some_and(|names| names.hold(path));
    for (entry, exists) in batch.entries.into_iter().zip(exists) {
        match exists {
            Ok(_) if is_backup(&entry.path) => kept.push(entry.path),
            Ok(false) if !entry.path.is_root() => extra.push(entry),
            Ok(_) => {}
            // The source may have an entry that cannot be looked up.
            Err(_) => kept.push(entry.path),
        }
    }
    if protection.is_needed() {
        let protects = protection.protects(&extra)?;
        let (staying, going): (Vec<_>, Vec<_>) =
            extra.into_iter().zip(protects).partition(|(_, protects)| *protects);
        kept.extend(staying.into_iter().map(|(entry, _)| entry.path));
        extra = going.into_iter().map(|(entry, _)| entry).collect();
    }
    Ok(Asked { extra, kept })
}

/// An entry that an option skips at the source protects the entry of the same path at the destination, and all below
/// it.
struct Protection<'a> {
    run: &'a Run<'a>,
    scan: &'a ScanOptions,
    /// The device of the root, with `-x`.
    dev: Option<u64>,
}

impl<'a> Protection<'a> {
    fn new(run: &'a Run<'a>, scan: &'a ScanOptions) -> Result<Self> {
        let dev = if scan.one_file_system { run.source.root()?.map(|root| root.dev) } else { None };
        Ok(Self { run, scan, dev })
    }

    /// Whether there is an option that skips entries.
    fn is_needed(&self) -> bool {
        self.dev.is_some() || self.run.ignore_existing || self.scan.limits_size_or_age()
    }

    /// Whether this entry of the source protects what is below its path at the destination.
    fn is_over(&self, above: &Entry) -> bool {
        if above.is_dir() {
            // The scan does not descend into a mount point.
            return self.dev.is_some_and(|dev| dev != above.dev);
        }
        self.run.ignore_existing
            || self.scan.is_wrong_size_or_age(above)
            || filter::excludes(&self.scan.rules, &above.path, false)
    }

    /// For each extraneous entry, whether it stays. The nearest ancestor that the source has decides.
    fn protects(&self, extra: &[Entry]) -> Result<Vec<bool>> {
        let mut above: Vec<Option<RelPath>> = extra.iter().map(|entry| entry.path.parent()).collect();
        let mut protects = vec![false; extra.len()];
        while above.iter().any(Option::is_some) {
            let asked: Vec<RelPath> =
                above.iter().flatten().cloned().collect::<BTreeSet<_>>().into_iter().collect();
            let found: HashMap<&RelPath, _> = asked.iter().zip(self.run.source.lookup(&asked)?).collect();
            for (path, protects) in above.iter_mut().zip(&mut protects) {
                let Some(at) = path.take() else { continue };
                match found.get(&at) {
                    Some(Ok(Some(ancestor))) => *protects = self.is_over(ancestor),
                    Some(Ok(None)) => *path = at.parent(),
                    // It may be a mount point, or excluded.
                    Some(Err(_)) | None => *protects = true,
                }
            }
        }
        Ok(protects)
    }
}
