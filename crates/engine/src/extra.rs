//! Finds the extraneous entries of the destination (those that the source does not have), and which of them may be
//! deleted.

use haul_core::sync::Mutex;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;

use haul_core::{Entry, Error, ErrorKind, LeftOut, RelPath, Result, ScanBatch, ScanOptions, Side, Source};
use haul_spool::{Sorter, Spool};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::listed::ListedEntries;
use crate::path_key::{is_below, path_key, path_of_key};
use crate::path_list::{PathList, common_dirs, each_scan};
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
    /// Why nothing may be deleted.
    pub(crate) refusal: Option<String>,
}

/// The state of one path at the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum PathState {
    /// An extraneous directory.
    ExtraDir,
    /// An entry that stays.
    Kept,
    /// A directory that a deferred entry is to replace.
    Deferred,
}

/// Sorted, a directory comes after all entries in it.
type Places = Sorter<(Reverse<ByteBuf>, PathState)>;

/// A sort key: without the `Reverse`, the entries in a directory would follow the directory.
fn key(path: &RelPath) -> Reverse<ByteBuf> {
    Reverse(path_key(path))
}

/// The path of a sort key.
///
/// # Errors
/// `Protocol` if it is no valid path.
fn path_of(key: &Reverse<ByteBuf>) -> Result<RelPath> {
    path_of_key(&key.0).map_err(|bad| {
        Error::new(ErrorKind::Protocol, Side::Destination, "list", bad.to_string()).on(&**key.0)
    })
}

/// The error for a list that cannot be written or read.
pub(crate) fn list_error(error: &std::io::Error) -> Error {
    Error::list("removals", error)
}

/// Lists the destination, asks the source about each path, and sorts the result. In a run with a list of paths, only
/// the directories of the list are searched.
///
/// # Errors
/// The error of an end that cannot answer; `Io` if a list cannot be written.
pub(crate) fn find(
    run: &Run<'_>,
    view: &dyn Source,
    scan: &ScanOptions,
    paths: Option<PathList>,
) -> Result<Extra> {
    let ListingResult { files, mut places, refusal, .. } = list(run, view, scan, paths)?;
    for path in run.deferred.iter().flat_map(|deferred| deferred.paths()) {
        places.push((key(&path), PathState::Deferred)).map_err(|e| list_error(&e))?;
    }
    let mut extra = Extra { files, refusal, ..Extra::default() };
    let mut last_kept: Option<ByteBuf> = None;
    for place in places.sorted().map_err(|e| list_error(&e))? {
        let (key, place) = place.map_err(|e| list_error(&e))?;
        // In this order a directory directly follows the entries in it.
        let holds_kept = last_kept.as_ref().is_some_and(|kept| is_below(kept, &key.0));
        match place {
            PathState::Kept => {}
            PathState::ExtraDir if holds_kept => extra.kept_dirs += 1,
            PathState::ExtraDir => {
                extra.dirs.push(&path_of(&key)?).map_err(|e| list_error(&e))?;
                continue;
            }
            PathState::Deferred if holds_kept => {
                extra.blocked.insert(path_of(&key)?);
            }
            PathState::Deferred => continue,
        }
        last_kept = Some(key.0);
    }
    Ok(extra)
}

/// The results of the listing of the destination.
#[derive(Default)]
struct ListingResult {
    files: Spool<RelPath>,
    places: Places,
    /// Directories that the rules protect and the source has: the entries in them may be extraneous.
    entered: Spool<RelPath>,
    /// Entries of extraneous directories that perishable rules alone protect.
    perishable: Spool<RelPath>,
    /// As in [`Extra`].
    refusal: Option<String>,
    failure: Option<Error>,
}

impl ListingResult {
    fn add(&mut self, asked: SortedEntries) -> std::io::Result<()> {
        self.refusal = self.refusal.take().or(asked.refusal);
        for entry in asked.extra {
            if entry.is_dir() {
                self.places.push((key(&entry.path), PathState::ExtraDir))?;
            } else {
                self.files.push(&entry.path)?;
            }
        }
        for path in asked.kept {
            self.places.push((key(&path), PathState::Kept))?;
        }
        asked.entered.iter().try_for_each(|path| self.entered.push(path))?;
        asked.perishable.iter().try_for_each(|path| self.perishable.push(path))
    }
}

/// Lists the destination. Like rsync, it looks into each directory that the source has, also if a rule protects it: the
/// rule protects the directory, not the entries in it.
fn list(
    run: &Run<'_>,
    view: &dyn Source,
    scan: &ScanOptions,
    paths: Option<PathList>,
) -> Result<ListingResult> {
    let listing = DestinationListing {
        run,
        view,
        protection: Protection::new(run, scan)?,
        listed: ListedEntries::new(run.source, &scan.rules)?,
        source_root: run.source.root()?.filter(Entry::is_dir),
    };
    let into_starts = ScanOptions { enters_starts: true, ..scan.of_destination() };
    let mut found = match paths {
        None => listing.scan(&scan.of_destination(), ListingResult::default())?,
        Some(paths) => {
            let (paths, hidden) = paths.outermost(|paths| listing.listed.open_above(paths))?;
            if let Some(path) = hidden {
                let why = format!(
                    "nothing was removed, because the rules exclude a directory above the listed path {path}, \
                     in a directory that is listed too"
                );
                return Ok(ListingResult { refusal: Some(why), ..ListingResult::default() });
            }
            let replaced = |path: &RelPath| run.deferred.as_ref().is_some_and(|all| all.contains(path));
            let dirs = common_dirs(&paths, &listing.listed, view, replaced)?;
            listing.scan_from(&dirs, &into_starts, ListingResult::default())?
        }
    };
    loop {
        let entered = std::mem::take(&mut found.entered);
        let perishable = std::mem::take(&mut found.perishable);
        if entered.is_empty() && perishable.is_empty() || run.stopped() {
            return Ok(found);
        }
        found = listing.scan_from(&entered, &into_starts, found)?;
        let mut options = scan.of_destination();
        options.rules.ignores_perishable = true;
        found = listing.scan_from(&perishable, &options, found)?;
    }
}

/// The listing of the destination.
struct DestinationListing<'a> {
    run: &'a Run<'a>,
    view: &'a dyn Source,
    protection: Protection<'a>,
    listed: ListedEntries<'a>,
    source_root: Option<Entry>,
}

impl DestinationListing<'_> {
    /// Scans from each of the paths of a list.
    fn scan_from(
        &self,
        starts: &Spool<RelPath>,
        options: &ScanOptions,
        mut found: ListingResult,
    ) -> Result<ListingResult> {
        each_scan(starts, options, |options| {
            found = self.scan(options, std::mem::take(&mut found))?;
            Ok(())
        })?;
        Ok(found)
    }

    /// One scan, whose results are added to `found`.
    fn scan(&self, options: &ScanOptions, found: ListingResult) -> Result<ListingResult> {
        let (run, above) = (self.run, HashSet::<RelPath>::from_iter(options.above_starts()));
        let is_again = !options.starts.is_empty();
        let found = Mutex::new(found);
        self.view.scan(options, &|mut batch: ScanBatch| {
            if is_again {
                batch.entries.retain(|entry| !above.contains(&entry.path));
                // A start may be gone.
                batch.errors.retain(|failure| failure.error.kind() != ErrorKind::NotFound);
            }
            run.guard.count_listed(&batch);
            let (listed, unfound) = (batch.entries.len(), batch.expected.filter(|_| !is_again));
            let asked = self.ask(batch);
            let extra = asked.as_ref().map_or(0, |asked| asked.extra.len());
            run.meter.outlook.count_listed(listed, extra, unfound);
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
        let mut found = found.into_inner();
        found.failure.take().map_or(Ok(found), Err)
    }

    /// Sorts the entries of a batch into the lists of [`SortedEntries`].
    fn ask(&self, batch: ScanBatch) -> Result<SortedEntries> {
        let run = self.run;
        if let Some(failure) = batch.errors.into_iter().next() {
            return Err(failure.error.with_side(Side::Destination));
        }
        let mut asked = self.ask_left_out(batch.left_out)?;
        let paths: Vec<RelPath> = batch.entries.iter().map(|entry| entry.path.clone()).collect();
        let exists = self.listed.lists(&paths)?;
        let is_backup = |path: &RelPath| run.backups.as_ref().is_some_and(|names| names.hold(path));
        for (entry, exists) in batch.entries.into_iter().zip(exists) {
            match exists {
                Ok(_) if is_backup(&entry.path) => asked.kept.push(entry.path),
                Ok(false) if self.is_source(&entry) => {
                    let path = &entry.path;
                    asked.refusal = Some(format!("nothing was removed, because {path} is the source itself"));
                }
                Ok(false) if !entry.path.is_root() => asked.extra.push(entry),
                Ok(_) => {}
                // The source may have an entry that cannot be looked up.
                Err(_) => asked.kept.push(entry.path),
            }
        }
        if self.protection.is_needed() {
            let protects = self.protection.protects(&asked.extra)?;
            let (staying, going): (Vec<_>, Vec<_>) =
                asked.extra.into_iter().zip(protects).partition(|(_, protects)| *protects);
            asked.kept.extend(staying.into_iter().map(|(entry, _)| entry.path));
            asked.extra = going.into_iter().map(|(entry, _)| entry).collect();
        }
        Ok(asked)
    }

    /// Whether the entry is the root of the source. Names of a host and symbolic links can lead to it in ways that no path
    /// shows.
    fn is_source(&self, entry: &Entry) -> bool {
        entry.is_dir() && self.source_root.as_ref().is_some_and(|root| root.is_one_with(entry))
    }

    /// Sorts the entries that rules protect.
    fn ask_left_out(&self, left_out: Vec<LeftOut>) -> Result<SortedEntries> {
        let mut asked = SortedEntries::default();
        let (perishable, mut counting): (Vec<_>, Vec<_>) =
            left_out.into_iter().partition(|left| left.perishable);
        // A perishable rule counts in a directory that stays: one that is a directory at the source, too.
        let parents: Vec<RelPath> = perishable.iter().filter_map(|left| left.path.parent()).collect();
        let stay = if parents.is_empty() { Vec::new() } else { self.listed.lists_dirs(&parents)? };
        for (left, stays) in perishable.into_iter().zip(stay) {
            if stays == Ok(false) {
                asked.perishable.push(left.path);
            } else {
                counting.push(left);
            }
        }
        let (dirs, kept): (Vec<_>, Vec<_>) = counting.into_iter().partition(|left| left.is_dir);
        asked.kept.extend(kept.into_iter().map(|left| left.path));
        let dirs: Vec<RelPath> = dirs.into_iter().map(|left| left.path).collect();
        let listed = if dirs.is_empty() { Vec::new() } else { self.listed.lists(&dirs)? };
        for (path, listed) in dirs.into_iter().zip(listed) {
            let list = if listed == Ok(true) { &mut asked.entered } else { &mut asked.kept };
            list.push(path);
        }
        Ok(asked)
    }
}

/// The entries of a batch, sorted by whether they may stay.
#[derive(Default)]
struct SortedEntries {
    /// Entries that the source does not have.
    extra: Vec<Entry>,
    /// Paths that stay.
    kept: Vec<RelPath>,
    /// As in [`ListingResult`].
    entered: Vec<RelPath>,
    perishable: Vec<RelPath>,
    /// As in [`Extra`].
    refusal: Option<String>,
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

    /// Whether this entry of the source protects the entries below its path at the destination.
    fn is_over(&self, above: &Entry) -> bool {
        if above.is_dir() {
            // The scan does not descend into a mount point.
            return self.dev.is_some_and(|dev| dev != above.dev);
        }
        self.run.ignore_existing || self.scan.is_wrong_size_or_age(above)
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
