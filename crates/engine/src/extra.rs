//! What is at the destination and not at the source, and what of it may go.

use haul_core::sync::Mutex;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use haul_core::{Entry, Error, ErrorKind, RelPath, Result, ScanBatch, ScanOptions, Side, Source, filter};
use haul_spool::{Sorter, Spool};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::aside::Aside;
use crate::copy::Run;

/// What may be removed, in the order in which it can be.
#[derive(Default)]
pub(crate) struct Extra {
    pub(crate) files: Spool<RelPath>,
    /// Folders in which nothing stays, innermost first.
    pub(crate) dirs: Spool<RelPath>,
    /// Folders that the source does not have and that stay, because something in them does.
    pub(crate) kept_dirs: u64,
    /// Of the paths at which an entry waits for a folder to go, those whose folder stays.
    pub(crate) blocked: BTreeSet<RelPath>,
}

/// What is known of one path at the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Place {
    /// A folder that the source does not have.
    Folder,
    /// Something that stays.
    Kept,
    /// A folder in whose place an entry is to be.
    Waiting,
}

/// Sorted, folders come after all that is in them.
type Sorted = Sorter<(Reverse<ByteBuf>, Place)>;

/// A key by which all that is in a folder comes right after the folder.
fn key(path: &RelPath) -> Reverse<ByteBuf> {
    Reverse(ByteBuf::from(swapped(path.as_bytes(), b'/', 0)))
}

fn path_of(key: &Reverse<ByteBuf>) -> Result<RelPath> {
    let bytes = swapped(&key.0, 0, b'/');
    RelPath::new(&bytes)
        .map_err(|bad| Error::new(ErrorKind::Protocol, Side::Destination, "list", bad.to_string()).on(&bytes))
}

fn swapped(bytes: &[u8], from: u8, to: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.iter_mut().for_each(|byte| *byte = if *byte == from { to } else { *byte });
    bytes
}

fn is_below(key: &[u8], folder: &[u8]) -> bool {
    key.strip_prefix(folder).is_some_and(|rest| folder.is_empty() || rest.first() == Some(&0))
}

#[derive(Default)]
struct Found {
    files: Spool<RelPath>,
    places: Sorted,
    failure: Option<Error>,
}

/// Lists the destination and asks the source about each name.
pub(crate) fn find(run: &Run<'_>, view: &dyn Source, scan: &ScanOptions) -> Result<Extra> {
    let shelter = Shelter::new(run, scan)?;
    let found = Mutex::new(Found::default());
    let options = ScanOptions { tells_left_out: true, ..scan.whole_tree() };
    view.scan(&options, &|batch: ScanBatch| {
        run.guard.lists(&batch);
        let asked = ask(run, &shelter, batch);
        let mut found = found.lock();
        let kept = asked.and_then(|asked| found.take(asked).map_err(|e| spool_failed(&e)));
        if let Err(error) = kept {
            found.failure.get_or_insert(error);
        }
        if found.failure.is_some() || run.stopped() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    let Found { files, mut places, failure } = found.into_inner();
    if let Some(error) = failure {
        return Err(error);
    }
    for path in run.aside.iter().flat_map(Aside::paths) {
        places.push((key(&path), Place::Waiting)).map_err(|e| spool_failed(&e))?;
    }
    let mut extra = Extra { files, ..Extra::default() };
    let mut last_kept: Option<ByteBuf> = None;
    for place in places.sorted().map_err(|e| spool_failed(&e))? {
        let (key, place) = place.map_err(|e| spool_failed(&e))?;
        // In this order nothing lies between a folder and what is in it.
        let holds_kept = last_kept.as_ref().is_some_and(|kept| is_below(kept, &key.0));
        match place {
            Place::Kept => {}
            Place::Folder if holds_kept => extra.kept_dirs += 1,
            Place::Folder => {
                extra.dirs.push(&path_of(&key)?).map_err(|e| spool_failed(&e))?;
                continue;
            }
            Place::Waiting if holds_kept => {
                extra.blocked.insert(path_of(&key)?);
            }
            Place::Waiting => continue,
        }
        last_kept = Some(key.0);
    }
    Ok(extra)
}

impl Found {
    fn take(&mut self, asked: Asked) -> std::io::Result<()> {
        for entry in asked.extra {
            if entry.is_dir() {
                self.places.push((key(&entry.path), Place::Folder))?;
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

/// What a batch of the destination's entries holds besides those that the source has.
struct Asked {
    extra: Vec<Entry>,
    kept: Vec<RelPath>,
}

fn ask(run: &Run<'_>, shelter: &Shelter<'_>, batch: ScanBatch) -> Result<Asked> {
    if let Some(failure) = batch.errors.into_iter().next() {
        return Err(failure.error.with_side(Side::Destination));
    }
    let mut kept = batch.left_out;
    let paths: Vec<RelPath> = batch.entries.iter().map(|entry| entry.path.clone()).collect();
    let there = run.source.holds(&paths)?;
    let mut extra: Vec<Entry> = Vec::new();
    for (entry, there) in batch.entries.into_iter().zip(there) {
        match there {
            Ok(false) if !entry.path.is_root() => extra.push(entry),
            Ok(_) => {}
            // What cannot be looked at may well be there.
            Err(_) => kept.push(entry.path),
        }
    }
    if shelter.is_needed() {
        let stays = shelter.stays(&extra)?;
        let (staying, going): (Vec<_>, Vec<_>) = extra.into_iter().zip(stays).partition(|(_, stays)| *stays);
        kept.extend(staying.into_iter().map(|(entry, _)| entry.path));
        extra = going.into_iter().map(|(entry, _)| entry).collect();
    }
    Ok(Asked { extra, kept })
}

/// What an option left out at the source protects what the destination has under its name, and below it.
struct Shelter<'a> {
    run: &'a Run<'a>,
    scan: &'a ScanOptions,
    /// The file system that was not left, with `-x`.
    dev: Option<u64>,
}

impl<'a> Shelter<'a> {
    fn new(run: &'a Run<'a>, scan: &'a ScanOptions) -> Result<Self> {
        let dev = if scan.one_file_system { run.source.root()?.map(|root| root.dev) } else { None };
        Ok(Self { run, scan, dev })
    }

    /// Whether there is an option that leaves out something.
    fn is_needed(&self) -> bool {
        self.dev.is_some()
            || self.run.ignore_existing
            || self.scan.min_size.is_some()
            || self.scan.max_size.is_some()
    }

    /// Whether what is below `above`, which the source has, stays though the source does not have it.
    fn is_over(&self, above: &Entry) -> bool {
        if above.is_dir() {
            // Below a mount point nothing was looked at.
            return self.dev.is_some_and(|dev| dev != above.dev);
        }
        self.run.ignore_existing
            || self.scan.is_wrong_size(above)
            || filter::excludes(&self.scan.rules, &above.path, false)
    }

    /// For each entry that the source does not have, whether it stays: the nearest thing above it that the source has
    /// decides.
    fn stays(&self, extra: &[Entry]) -> Result<Vec<bool>> {
        let mut above: Vec<Option<RelPath>> = extra.iter().map(|entry| entry.path.parent()).collect();
        let mut stays = vec![false; extra.len()];
        while above.iter().any(Option::is_some) {
            let asked: Vec<RelPath> =
                above.iter().flatten().cloned().collect::<BTreeSet<_>>().into_iter().collect();
            let found: HashMap<&RelPath, _> = asked.iter().zip(self.run.source.lookup(&asked)?).collect();
            for (path, stays) in above.iter_mut().zip(&mut stays) {
                let Some(at) = path.take() else { continue };
                match found.get(&at) {
                    Some(Ok(Some(there))) => *stays = self.is_over(there),
                    Some(Ok(None)) => *path = at.parent(),
                    // What cannot be looked at may well be of another file system, or left out.
                    Some(Err(_)) | None => *stays = true,
                }
            }
        }
        Ok(stays)
    }
}

pub(crate) fn spool_failed(error: &std::io::Error) -> Error {
    Error::list("removals", error)
}
