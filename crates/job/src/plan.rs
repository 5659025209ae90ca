//! Plans which source goes where. Everything is opened and checked before anything is copied.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use haul_core::{
    Entry, EntryKind, Error, ErrorKind, Links, Location, Place, RelPath, Result, ScanOptions, Source, Totals,
};
use haul_engine::{PathSelection, Paths};

use super::ends::Ends;
use super::errors::usage;
use super::merge::add_failure;
use super::mistakes::{refuse_dash, refuse_unit, surprise};
use super::observer::Observer;
use super::overlap::refuse_overlap;
use super::place::{Landing, destination_place, dir_place, root_name};
use super::relative::{RelativeSources, behind_link, location_of, place_of, relative_sources};
use super::siblings::{SiblingGroup, group, join, split};
use super::wildcards::{expand, open_source};

/// A source that exists, and its path at the destination.
pub(crate) struct PlannedCopy {
    /// The source.
    pub(crate) source: Arc<dyn Source>,
    /// The engine keeps the rate limit.
    pub(crate) keeps_rate: bool,
    /// The location of the source.
    pub(crate) at: Location,
    /// The root at the destination.
    pub(crate) place: Place,
    /// The roots at the other destinations.
    pub(crate) other_places: Vec<Place>,
    /// The name of the root in the transfer; empty if it has none.
    pub(crate) root_name: Vec<u8>,
    /// Filters, relative to the root.
    pub(crate) scan: ScanOptions,
    /// The same paths as `paths`, if all of them are known already.
    pub(crate) selection: Option<Arc<PathSelection>>,
    /// Only these paths are copied.
    pub(crate) paths: Option<Paths>,
    /// The SRC relative to which a list of failed names can be copied again.
    pub(crate) retry: Option<Location>,
}

/// Plans a job.
pub(crate) struct Planner<'a> {
    /// Opens the sources.
    pub(crate) ends: &'a mut Ends,
    /// The destination.
    pub(crate) destination: &'a Location,
    /// More destinations.
    pub(crate) others: &'a [Location],
    /// Filters, relative to the transfer.
    pub(crate) scan: &'a ScanOptions,
    /// How the sources treat symbolic links.
    pub(crate) links: Links,
    /// Hash the source while the login to the destination lasts.
    pub(crate) prehashes: bool,
    /// The paths of the sources are kept at the destination.
    pub(crate) relative: bool,
    /// The job deletes the entries that the sources lack.
    pub(crate) deletes: bool,
    /// Receives missing sources.
    pub(crate) observer: &'a dyn Observer,
    /// There is one source: if it fails, the job fails.
    pub(crate) is_only: bool,
    /// The first of several sources.
    pub(crate) first: Option<&'a Location>,
    /// Counts failed and excluded sources.
    pub(crate) totals: &'a mut Totals,
}

impl<'a> Planner<'a> {
    /// Opens the sources. If one of several fails, reports it and plans the others.
    ///
    /// # Errors
    /// Errors that concern all sources, as [`ErrorKind::Unreachable`] and [`ErrorKind::Usage`].
    pub(crate) fn plan(mut self, sources: &'a [Location], paths: Option<Paths>) -> Result<Vec<PlannedCopy>> {
        let remote = |end: &Location| matches!(end, Location::Ssh { .. });
        if remote(self.destination) && self.others.is_empty() && sources.iter().all(remote) {
            self.ends.expect_third_party_copy();
        }
        let is_share = |end: &Location| matches!(end, Location::Smb { .. });
        if sources.iter().all(is_share) && self.destinations().all(is_share) {
            self.ends.keep_reparse_points();
        }
        refuse_unit(sources)?;
        for destination in self.destinations() {
            refuse_dash(sources, destination)?;
        }
        let expanded = expand(self.ends, sources, self.links)?;
        if let ([pattern], [_, _, ..]) = (sources, &expanded[..])
            && (self.deletes || paths.is_some())
        {
            let cause = format!("{} entries match the pattern, and one source is expected", expanded.len());
            return Err(usage("take the source", cause).on(pattern.to_string()));
        }
        let (given, sources) = (sources, &expanded[..]);
        self.is_only = sources.len() == 1;
        self.first = given.first().filter(|_| !self.is_only);
        let mut planned = Vec::new();
        if let (Some(paths), [source]) = (paths, sources) {
            planned.extend(self.one(
                source,
                Landing { is_dir: true, several: false, listed: true },
                Some(paths),
            )?);
            return Ok(planned);
        }
        if self.relative {
            for group in relative_sources(sources)? {
                self.below(group, &mut planned)?;
            }
            return Ok(planned);
        }
        let landing = Landing { is_dir: true, several: sources.len() > 1, listed: false };
        for group in group(sources) {
            match group {
                SiblingGroup::One(source) => planned.extend(self.one(&source, landing, None)?),
                // The directory that they are in has no part in the transfer, nor have its rules.
                SiblingGroup::Siblings { parent, names } if self.scan.rules.are_in_tree() => {
                    for name in &names {
                        planned.extend(self.one(&join(&parent, name), landing, None)?);
                    }
                }
                SiblingGroup::Siblings { parent, names } => {
                    self.siblings(&parent, &names, landing, &mut planned)?;
                }
            }
        }
        Ok(planned)
    }

    /// Plans one source; `None` if it failed or is excluded.
    fn one(&mut self, at: &Location, landing: Landing, paths: Option<Paths>) -> Result<Option<PlannedCopy>> {
        let (source, kind) = match self.open(at) {
            Ok(opened) => opened,
            Err(error) if concerns_all(&error) || self.is_only => return Err(error),
            Err(error) => {
                let error = maybe_destination(error, at, self.first);
                add_failure(self.totals);
                self.observer.failed(at.to_string().as_bytes(), &error);
                return Ok(None);
            }
        };
        let is_dir = kind == EntryKind::Dir;
        for destination in self.destinations().filter(|_| is_dir) {
            refuse_file(destination, &format!("{at} is a directory"))?;
        }
        let landing = Landing { is_dir, ..landing };
        let place = destination_place(at, self.destination, landing);
        let place_at = |other| destination_place(at, other, landing);
        let other_places: Vec<Place> = self.others.iter().map(place_at).collect();
        let root_name = root_name(at, landing).unwrap_or_default().to_vec();
        let mut scan = self.scan.clone();
        scan.rules = scan.rules.below(&root_name);
        if scan.rules.exclude_root(is_dir) {
            self.totals.excluded += 1;
            return Ok(None);
        }
        for (destination, place) in self.destinations().zip([&place].into_iter().chain(&other_places)) {
            refuse_overlap(at, destination, place, &scan.rules, self.deletes)?;
        }
        if is_dir
            && self.is_only
            && let Some(note) = surprise(at, self.destination, !root_name.is_empty())
        {
            self.observer.note(&note);
        }
        let ahead = (self.prehashes && paths.is_none() && source.caps().prehash).then_some(&scan);
        let keeps_rate = self.meet_destination(at, &source, ahead)?;
        let retry = if root_name.is_empty() {
            Some(at.clone())
        } else {
            // A single file may have another name at the destination.
            split(at).filter(|_| is_dir).map(|(parent, _)| parent)
        };
        Ok(Some(PlannedCopy {
            source,
            keeps_rate,
            at: at.clone(),
            place,
            other_places,
            root_name,
            scan,
            selection: None,
            paths,
            retry,
        }))
    }

    /// Plans sources of one directory as one copy; if the directory cannot be opened, plans each separately.
    fn siblings(
        &mut self,
        parent: &Location,
        names: &[RelPath],
        landing: Landing,
        planned: &mut Vec<PlannedCopy>,
    ) -> Result<()> {
        let source = match self.open(parent) {
            Ok((source, EntryKind::Dir)) => source,
            Err(error) if concerns_all(&error) => return Err(error),
            Ok(_) | Err(_) => {
                for name in names {
                    planned.extend(self.one(&join(parent, name), landing, None)?);
                }
                return Ok(());
            }
        };
        for destination in self.destinations() {
            refuse_file(destination, "several sources need a directory")?;
            for name in names {
                let at = join(parent, name);
                let place = destination_place(&at, destination, landing);
                let rules = self.scan.rules.below(name.as_bytes());
                if !rules.exclude_root(true) {
                    refuse_overlap(&at, destination, &place, &rules, self.deletes)?;
                }
            }
        }
        planned.push(self.listed(parent, source, names.to_vec())?);
        Ok(())
    }

    /// Plans sources below one directory as one copy, which keeps their paths.
    fn below(&mut self, group: RelativeSources, planned: &mut Vec<PlannedCopy>) -> Result<()> {
        let RelativeSources { base, mut paths, with_slash } = group;
        let base = &base;
        let source = match self.open(base) {
            Ok((source, _)) => source,
            Err(error) if concerns_all(&error) || self.is_only => return Err(error),
            Err(error) => {
                for path in paths {
                    add_failure(self.totals);
                    self.observer.failed(location_of(base, &path).to_string().as_bytes(), &error);
                }
                return Ok(());
            }
        };
        refuse_file(self.destination, "--relative needs a directory")?;
        let is_link = |found: &Result<Option<Entry>>| {
            matches!(found, Ok(Some(Entry { kind: EntryKind::Symlink(_), .. })))
        };
        let found = if with_slash.is_empty() { Vec::new() } else { source.lookup(&with_slash)? };
        for (path, found) in with_slash.iter().zip(found) {
            if is_link(&found) {
                paths.retain(|other| other != path);
                planned.extend(self.behind_link(base, path)?);
            }
        }
        if paths.is_empty() {
            return Ok(());
        }
        for path in &paths {
            let (at, place) = (location_of(base, path), place_of(self.destination, path));
            let rules = self.scan.rules.below(path.as_bytes());
            refuse_overlap(&at, self.destination, &place, &rules, self.deletes)?;
        }
        planned.push(self.listed(base, source, paths)?);
        Ok(())
    }

    /// The copy of the directory behind the link at `path` below `base`, in the place of the link. `None` if it failed
    /// or is excluded.
    fn behind_link(&mut self, base: &Location, path: &RelPath) -> Result<Option<PlannedCopy>> {
        let (at, place) = behind_link(base, self.destination, path);
        let landing = Landing { is_dir: true, several: false, listed: false };
        let planned = self.one(&at, landing, None)?;
        Ok(planned.map(|copy| {
            let mut scan = self.scan.clone();
            scan.rules = scan.rules.below(path.as_bytes());
            let root_name = path.as_bytes().to_vec();
            PlannedCopy { place, root_name, scan, retry: Some(base.clone()), ..copy }
        }))
    }

    /// The copy of some paths of a source that keep their paths.
    fn listed(&mut self, at: &Location, source: Arc<dyn Source>, paths: Vec<RelPath>) -> Result<PlannedCopy> {
        Ok(PlannedCopy {
            keeps_rate: self.meet_destination(at, &source, None)?,
            source,
            at: at.clone(),
            place: dir_place(self.destination),
            other_places: self.others.iter().map(dir_place).collect(),
            root_name: Vec::new(),
            scan: self.scan.clone(),
            selection: Some(Arc::new(PathSelection::new(&paths))),
            paths: Some(Box::new(paths.into_iter().map(Ok))),
            retry: Some(at.clone()),
        })
    }

    fn destinations(&self) -> impl Iterator<Item = &'_ Location> + use<'_> {
        [self.destination].into_iter().chain(self.others)
    }

    /// Opens a source and finds the type of its root.
    fn open(&mut self, at: &Location) -> Result<(Arc<dyn Source>, EntryKind)> {
        let (source, root) = open_source(self.ends, at, self.links)?;
        Ok((source, root.kind))
    }

    /// Connects to the host of the destination. Returns whether the engine has to keep the rate limit: the connections
    /// with a remote haul keep it themselves, and also count the bytes between two remote hauls, and so do requests that
    /// read from a store. During the login, a thread hashes the files that the scan `ahead` finds.
    fn meet_destination(
        &mut self,
        at: &Location,
        source: &Arc<dyn Source>,
        ahead: Option<&ScanOptions>,
    ) -> Result<bool> {
        if !self.others.is_empty() {
            // The run goes on without a destination that cannot be reached.
            return Ok(true);
        }
        let connected = Arc::new(AtomicBool::new(false));
        if let (Some(scan), Location::Ssh { .. }, false) = (ahead, self.destination, self.ends.is_peer(at)?) {
            let (source, scan, connected) = (Arc::clone(source), scan.clone(), Arc::clone(&connected));
            // Nothing waits for this thread: a file system may hang.
            let _ = thread::Builder::new()
                .name("haul-ahead".to_owned())
                .spawn(move || source.prehash(&scan, &connected));
        }
        let has_peer =
            self.ends.is_peer(at).and_then(|peer| Ok(peer || self.ends.is_peer(self.destination)?));
        connected.store(true, Ordering::Relaxed);
        Ok(!has_peer? && !matches!(at, Location::Object(_)))
    }
}

/// Refuses a file as the destination where a directory is needed. Checks local destinations only.
///
/// # Errors
/// [`ErrorKind::Usage`].
fn refuse_file(destination: &Location, why: &str) -> Result<()> {
    let Location::Local(path) = destination else { return Ok(()) };
    let name = path.iter().rposition(|byte| *byte != b'/').map_or(&path[..0], |last| &path[..=last]);
    let there = std::fs::metadata(OsStr::from_bytes(name));
    if !name.is_empty() && there.is_ok_and(|there| !there.is_dir()) {
        let cause = format!("it is a file, and {why}");
        return Err(usage("copy to", cause).on(destination.to_string()));
    }
    Ok(())
}

/// The error of a source that is not there. A remote one behind the first may be meant as a destination.
fn maybe_destination(error: Error, at: &Location, first: Option<&Location>) -> Error {
    let Some(first) = first.filter(|first| *first != at && !matches!(at, Location::Local(_))) else {
        return error;
    };
    if error.kind() != ErrorKind::NotFound || error.hint().is_some() {
        return error;
    }
    error.with_hint(format!("{at} is read as a source: to copy {first} to it too, use --all-destinations"))
}

/// Whether an error of one source concerns all sources.
fn concerns_all(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unreachable | ErrorKind::Protocol | ErrorKind::Usage | ErrorKind::Cancelled
    )
}
