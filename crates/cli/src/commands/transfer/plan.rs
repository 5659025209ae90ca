//! Which sources go where: everything is opened and checked before anything is copied.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use haul_core::filter::excludes;
use haul_core::{
    EntryKind, Error, ErrorKind, Limiter, Location, Place, RelPath, Result, ScanOptions, Side, Source, Totals,
};
use haul_engine::Cancel;

use super::merge::add_failure;
use crate::ends::{
    Ends, Group, Landing, Paced, Rootless, destination_place, folder_place, group, join, refuse_overlap,
    root_name, source_place, split,
};
use crate::render::Console;
use crate::settings::{Paths, usage};

/// Sources that are there, and where they go.
pub(super) struct Planned {
    /// Where data is read from.
    pub(super) source: Arc<dyn Source>,
    /// Where that is.
    pub(super) at: Location,
    /// The root at the destination.
    pub(super) place: Place,
    /// The name that the root bears in the transfer; empty where it has none.
    pub(super) root_name: Vec<u8>,
    /// What is looked at.
    pub(super) scan: ScanOptions,
    /// Only these paths.
    pub(super) paths: Option<Paths>,
    /// The SRC below which names in the transfer are found again.
    pub(super) retry: Option<Location>,
}

/// Decides where sources go.
pub(super) struct Planner<'a> {
    /// Opens them.
    pub(super) ends: &'a mut Ends,
    /// Where they go to.
    pub(super) destination: &'a Location,
    /// What is looked at in each.
    pub(super) scan: &'a ScanOptions,
    /// Large files are expected to be there and to have changed a little.
    pub(super) prehashes: bool,
    /// What the sources do not have will be removed.
    pub(super) removes: bool,
    /// Hears of sources that are missing.
    pub(super) console: &'a Console,
    /// For what goes over no connection.
    pub(super) limit: &'a Arc<Limiter>,
    /// Ends the waiting for the limit.
    pub(super) cancel: &'a Cancel,
    /// There is one source: without it there is nothing to be done.
    pub(super) is_only: bool,
    /// Counts them.
    pub(super) totals: &'a mut Totals,
}

impl Planner<'_> {
    /// Opens the sources. One that cannot be opened is reported, and the others are copied.
    ///
    /// # Errors
    /// What concerns all of them: a machine that cannot be reached, words that make no sense.
    pub(super) fn plan(mut self, sources: &[Location], paths: Option<Paths>) -> Result<Vec<Planned>> {
        let remote = |end: &Location| matches!(end, Location::Ssh { .. });
        if remote(self.destination) && sources.iter().all(remote) {
            self.ends.between_others();
        }
        self.is_only = sources.len() == 1;
        let mut planned = Vec::new();
        if let (Some(paths), [source]) = (paths, sources) {
            planned.extend(self.one(
                source,
                Landing { is_dir: true, several: false, listed: true },
                Some(paths),
            )?);
            return Ok(planned);
        }
        let landing = Landing { is_dir: true, several: sources.len() > 1, listed: false };
        for group in group(sources) {
            match group {
                Group::One(source) => planned.extend(self.one(&source, landing, None)?),
                Group::Siblings { parent, names } => self.siblings(&parent, &names, landing, &mut planned)?,
            }
        }
        Ok(planned)
    }

    /// Plans one source; `None` if there is nothing to copy of it.
    fn one(&mut self, at: &Location, landing: Landing, paths: Option<Paths>) -> Result<Option<Planned>> {
        let (source, kind) = match self.open(at) {
            Ok(opened) => opened,
            Err(error) if concerns_all(&error) || self.is_only => return Err(error),
            Err(error) => {
                add_failure(self.totals);
                self.console.failed(at.to_string().as_bytes(), &error);
                return Ok(None);
            }
        };
        let is_dir = kind == EntryKind::Dir;
        if is_dir {
            refuse_file(at, self.destination)?;
        }
        let landing = Landing { is_dir, ..landing };
        let place = destination_place(at, self.destination, landing);
        let root_name = root_name(at, landing).unwrap_or_default().to_vec();
        let mut scan = self.scan.clone();
        scan.rules = scan.rules.iter().map(|rule| rule.below(&root_name)).collect();
        if excludes(&scan.rules, &RelPath::root(), is_dir) {
            self.totals.excluded += 1;
            return Ok(None);
        }
        refuse_overlap(at, self.destination, &place, &scan.rules, self.removes)?;
        let ahead = (self.prehashes && paths.is_none()).then_some(&scan);
        let source = self.meet_destination(at, source, ahead)?;
        let listed: Arc<dyn Source> = if paths.is_some() { Arc::new(Rootless(source)) } else { source };
        let retry = if root_name.is_empty() {
            Some(at.clone())
        } else {
            // A single file may have got another name at the destination.
            split(at).filter(|_| is_dir).map(|(parent, _)| parent)
        };
        Ok(Some(Planned { source: listed, at: at.clone(), place, root_name, scan, paths, retry }))
    }

    /// Plans sources that lie in one folder as one; if the folder itself cannot be opened, each by itself.
    fn siblings(
        &mut self,
        parent: &Location,
        names: &[RelPath],
        landing: Landing,
        planned: &mut Vec<Planned>,
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
        refuse_file(parent, self.destination)?;
        for name in names {
            let at = join(parent, name);
            let place = destination_place(&at, self.destination, landing);
            let rules: Vec<_> = self.scan.rules.iter().map(|rule| rule.below(name.as_bytes())).collect();
            if !excludes(&rules, &RelPath::root(), true) {
                refuse_overlap(&at, self.destination, &place, &rules, self.removes)?;
            }
        }
        let source = self.meet_destination(parent, source, None)?;
        let names = names.to_vec();
        planned.push(Planned {
            source: Arc::new(Rootless(source)),
            at: parent.clone(),
            place: folder_place(self.destination),
            root_name: Vec::new(),
            scan: self.scan.clone(),
            paths: Some(Box::new(names.into_iter().map(Ok))),
            retry: Some(parent.clone()),
        });
        Ok(())
    }

    /// Opens a source and finds out what its root is.
    fn open(&mut self, at: &Location) -> Result<(Arc<dyn Source>, EntryKind)> {
        let source = self.ends.source(at, &source_place(at))?;
        let Some(root) = source.root()? else {
            let error = Error::new(ErrorKind::NotFound, Side::Source, "find", "no such file or directory");
            return Err(error.on(at.to_string()));
        };
        Ok((source, root.kind))
    }

    /// Reaches the machine of the destination, and gives the source as it is to be read for that. Meanwhile what the
    /// scan `ahead` finds in it may be read ahead.
    fn meet_destination(
        &mut self,
        at: &Location,
        source: Arc<dyn Source>,
        ahead: Option<&ScanOptions>,
    ) -> Result<Arc<dyn Source>> {
        if self.ends.is_peer(at)? {
            return Ok(source);
        }
        let met = Arc::new(AtomicBool::new(false));
        if let (Some(scan), Location::Ssh { .. }) = (ahead, self.destination) {
            let (source, scan, met) = (Arc::clone(&source), scan.clone(), Arc::clone(&met));
            // It is not waited for: a file system may never answer.
            let _ = thread::Builder::new()
                .name("haul-ahead".to_owned())
                .spawn(move || source.prehash(&scan, &met));
        }
        let is_peer = self.ends.is_peer(self.destination);
        met.store(true, Ordering::Relaxed);
        // Connections with a remote haul keep the limit themselves.
        if is_peer? {
            return Ok(source);
        }
        Ok(Arc::new(Paced { source, limit: Arc::clone(self.limit), cancel: self.cancel.clone() }))
    }
}

/// Refuses to copy a directory to where a file is. Only a destination on this machine is looked at.
///
/// # Errors
/// A usage error.
fn refuse_file(source: &Location, destination: &Location) -> Result<()> {
    let Location::Local(path) = destination else { return Ok(()) };
    let name = path.iter().rposition(|byte| *byte != b'/').map_or(&path[..0], |last| &path[..=last]);
    let there = std::fs::metadata(OsStr::from_bytes(name));
    if !name.is_empty() && there.is_ok_and(|there| !there.is_dir()) {
        let cause = format!("it is a file, and {source} is a directory");
        return Err(usage("copy to", cause).on(destination.to_string()));
    }
    Ok(())
}

/// Whether an error with one source is one with all.
fn concerns_all(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unreachable | ErrorKind::Protocol | ErrorKind::Usage | ErrorKind::Cancelled
    )
}
