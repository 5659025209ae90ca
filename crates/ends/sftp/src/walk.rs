//! A walk over folders at the server: many listings side by side, many answers ahead.

use haul_core::sync::Mutex;
use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::ops::ControlFlow;

use haul_core::source::ScanVisit;
use haul_core::{
    Entry, EntryKind, Error, ErrorKind, Failure, RelPath, Result, Retry, ScanBatch, ScanOptions, Side,
    Timestamp, filter,
};
use haul_threads::together;

use super::checks::weight;
use super::conn::{Conn, Fault, lost};
use super::packet::{Attrs, Names, Request};
use super::tree::{self, KIND, Tree};
use super::wave::Wave;
use haul_core::staging::is_staging_name;
use haul_ends::frontier::Frontier;

/// Entries handed over at a time.
const BATCH: usize = 512;
/// Threads of one walk.
const THREADS: usize = 4;
/// Folders that one thread lists side by side.
const SIDE_BY_SIDE: usize = 32;
/// Parts of one listing that are asked for at once: few at first, as most folders are small. OpenSSH gives up to a
/// hundred names in each.
const AHEAD: [usize; 4] = [2, 4, 16, 64];
/// Memory for parts that one thread has asked for.
const PARTS: u64 = 4 * 1024 * 1024;
/// What a part takes in memory, if no larger one has come.
const PART: u64 = 16 * 1024;
/// Parts without names that may come one after the other.
const EMPTY: u32 = 1000;
/// Names of a folder that are remembered while it is listed; no folder of more can be listed again where the connection
/// was lost.
const TOLD: usize = 1 << 20;

struct Walk<'a> {
    tree: &'a Tree,
    options: &'a ScanOptions,
    visit: ScanVisit<'a>,
    folders: Frontier<RelPath>,
}

/// Walks below the root of `tree`.
pub(super) fn walk(tree: &Tree, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
    if options.one_file_system {
        let cause = "SFTP does not tell one file system from another";
        let error = Error::new(ErrorKind::Usage, tree.side, "obey --one-file-system", cause);
        return Err(error.with_hint("leave it out, and what is to stay out with --exclude"));
    }
    if options.owner_names {
        tree.pool().note("SFTP tells owners by number only: --owner-by-name has no effect on this source");
    }
    let walk = Walk { tree, options, visit, folders: Frontier::default() };
    let first = walk.starts()?;
    if (walk.visit)(first).is_break() {
        return Ok(());
    }
    together(THREADS, "walk", || walk.run())?;
    walk.folders.end()
}

impl Walk<'_> {
    /// The starts themselves and the folders above them.
    fn starts(&self) -> Result<ScanBatch> {
        let starts =
            if self.options.starts.is_empty() { vec![RelPath::root()] } else { self.options.starts.clone() };
        let above = self.options.above_starts();
        let mut batch = ScanBatch::default();
        batch.entries.extend(entries_at(self.tree, &above)?.into_iter().filter_map(|found| found.ok()?));
        for (path, found) in starts.iter().zip(entries_at(self.tree, &starts)?) {
            match found {
                Ok(Some(entry)) if !start_excluded(self.options, &entry) => {
                    if entry.is_dir() {
                        self.folders.add([path.clone()]);
                    }
                    batch.entries.push(entry);
                }
                Ok(Some(_)) => batch.leaves_out(self.options, path),
                Ok(None) => {
                    let error =
                        self.tree.fault(ErrorKind::NotFound, "look at", path, "No such file or directory");
                    batch.errors.push(Failure { path: path.clone(), error });
                }
                Err(error) => batch.errors.push(Failure { path: path.clone(), error }),
            }
        }
        Ok(batch)
    }

    fn run(&self) {
        let mut batch = ScanBatch::default();
        // A fair share, so that the other threads have something to do too.
        let share = |len: usize| (len / THREADS).min(SIDE_BY_SIDE);
        while let Some(dirs) = self.folders.take(share, || self.hand_over(&mut batch, 0)) {
            self.folders.done(self.list(&dirs, &mut batch));
            self.hand_over(&mut batch, BATCH);
        }
        self.hand_over(&mut batch, 0);
    }

    fn hand_over(&self, batch: &mut ScanBatch, at_least: usize) {
        let count = batch.entries.len() + batch.errors.len();
        if count < at_least || count == 0 && batch.excluded == 0 || self.folders.is_stopped() {
            return;
        }
        if let ControlFlow::Break(()) = (self.visit)(std::mem::take(batch)) {
            self.folders.stop();
        }
    }

    /// Lists folders. What was told of a listing before its connection was lost is not told again.
    fn list(&self, dirs: &[RelPath], batch: &mut ScanBatch) -> Result<()> {
        let hasher = RandomState::new();
        let told: Mutex<Vec<HashSet<u64>>> = Mutex::new(vec![HashSet::new(); dirs.len()]);
        let batch = Mutex::new(batch);
        let paths: Vec<Vec<u8>> = dirs.iter().map(|dir| self.tree.remote(dir)).collect();
        let failed = self.tree.pool().on_one(|conn| {
            let mut batch = batch.lock();
            let mut told = told.lock();
            if told.iter().any(|told| told.len() >= TOLD) {
                let why = "the connection was lost while a folder of a million names was listed";
                return Err(lost(&self.tree.pool().name(), why).with_retry(Retry::Never));
            }
            list(conn, &paths, &mut |at, mut names| {
                let mut now = HashSet::new();
                names.retain(|(name, _)| {
                    let hash = hasher.hash_one(name);
                    let is_new = told[at].len() >= TOLD || told[at].insert(hash);
                    if is_new {
                        now.insert(hash);
                    }
                    is_new
                });
                if let Err(error) = self.names(conn, &dirs[at], names, &mut batch) {
                    // They were not told, and are to be when the folder is listed again.
                    told[at].retain(|hash| !now.contains(hash));
                    return Err(error);
                }
                self.hand_over(&mut batch, BATCH);
                Ok(!self.folders.is_stopped())
            })
        })?;
        let batch = batch.into_inner();
        for (dir, fault) in dirs.iter().zip(failed) {
            // A folder that vanished since it was found has nothing to tell.
            if let Some(fault) = fault.filter(|fault| !fault.is_missing() || dir.is_root()) {
                let error = self.tree.error("list the folder", dir, fault);
                batch.errors.push(Failure { path: dir.clone(), error });
            }
        }
        Ok(())
    }

    /// Takes the names of a part of a listing.
    fn names(&self, conn: &Conn, parent: &RelPath, names: Names, batch: &mut ScanBatch) -> Result<()> {
        let mut found: Vec<(RelPath, Attrs)> = Vec::with_capacity(names.len());
        for (name, attrs) in names {
            if matches!(&name[..], b"." | b"..") {
                continue;
            }
            if is_staging_name(&name) {
                batch.excluded += 1;
                continue;
            }
            match parent.join(&name) {
                Ok(path) => found.push((path, attrs)),
                Err(bad) => {
                    let cause = bad.to_string();
                    let error =
                        self.tree.fault(ErrorKind::Unsupported, "take the path below", parent, &cause);
                    batch.errors.push(Failure { path: parent.clone(), error });
                }
            }
        }
        let options = self.options;
        for (path, entry) in complete(self.tree, conn, found)? {
            match entry {
                Ok(Some(entry)) => {
                    if options.is_wrong_size(&entry)
                        || filter::excludes(&options.rules, &path, entry.is_dir())
                    {
                        batch.leaves_out(options, &path);
                        continue;
                    }
                    if entry.is_dir() {
                        self.folders.add([path]);
                    }
                    batch.entries.push(entry);
                }
                // It vanished since it was listed.
                Ok(None) => {}
                Err(_) if filter::excludes(&options.rules, &path, false) => batch.leaves_out(options, &path),
                Err(error) => batch.errors.push(Failure { path, error }),
            }
        }
        Ok(())
    }
}

fn start_excluded(options: &ScanOptions, entry: &Entry) -> bool {
    !entry.path.is_root() && filter::excludes(&options.rules, &entry.path, entry.is_dir())
}

/// Finds a listing that goes round and round: no two of its parts hold the same names.
#[derive(Default)]
struct Round {
    parts: u64,
    /// A part of before, a later one each time that there are twice as many.
    kept: u64,
    empty: u32,
}

impl Round {
    /// Whether the listing will not end, now that this part has come.
    fn goes_on_for_ever(&mut self, hasher: &RandomState, names: &Names) -> bool {
        if names.is_empty() {
            self.empty += 1;
            return self.empty > EMPTY;
        }
        self.empty = 0;
        let mut hash = hasher.build_hasher();
        names.iter().for_each(|(name, _)| name.hash(&mut hash));
        let hash = hash.finish();
        if self.parts > 0 && hash == self.kept {
            return true;
        }
        self.parts += 1;
        if self.parts.is_power_of_two() {
            self.kept = hash;
        }
        false
    }
}

/// Takes a part of the listing of one of several folders; `false` ends all of them.
pub(super) type TakeNames<'a> = &'a mut dyn FnMut(usize, Names) -> Result<bool>;

/// Lists folders side by side on one connection. The faults of those that could not be.
pub(super) fn list(conn: &Conn, dirs: &[Vec<u8>], take: TakeNames<'_>) -> Result<Vec<Option<Fault>>> {
    let hasher = RandomState::new();
    let mut failed = Vec::with_capacity(dirs.len());
    for (chunk, some) in dirs.chunks(conn.files_at_once().min(SIDE_BY_SIDE)).enumerate() {
        let first = chunk * conn.files_at_once().min(SIDE_BY_SIDE);
        let mut rounds: Vec<Round> = some.iter().map(|_| Round::default()).collect();
        let mut largest = PART;
        let _handles = conn.handles(some.len());
        let mut wave = Wave::new(conn);
        some.iter().for_each(|path| wave.ask(&Request::Opendir { path }));
        let mut open: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut faults: Vec<Option<Fault>> = vec![None; some.len()];
        for (at, slot) in faults.iter_mut().enumerate() {
            match wave.expect().handle() {
                Ok(handle) => open.push((at, handle)),
                Err(Fault::Lost(error)) => return Err(error),
                Err(fault) => *slot = Some(fault),
            }
        }
        let close: Vec<Vec<u8>> = open.iter().map(|(_, handle)| handle.clone()).collect();
        let mut round = 0;
        let mut go_on = true;
        while !open.is_empty() && go_on {
            let most = (PARTS / largest / open.len() as u64).max(1);
            let ahead = AHEAD[round.min(AHEAD.len() - 1)].min(usize::try_from(most).unwrap_or(1));
            round += 1;
            let mut wave = Wave::new(conn);
            for (_, handle) in &open {
                (0..ahead).for_each(|_| wave.ask(&Request::Readdir { handle }));
            }
            let mut still = Vec::new();
            for (at, handle) in open {
                let mut ended = false;
                for _ in 0..ahead {
                    match wave.expect().names() {
                        Ok(Some(names)) if rounds[at].goes_on_for_ever(&hasher, &names) => {
                            let cause = "the server tells the same names again and again";
                            let error = Error::new(ErrorKind::Protocol, Side::Wire, "list the folder", cause);
                            return Err(error.on(&some[at]));
                        }
                        Ok(Some(names)) if go_on => {
                            largest = largest.max(weight(&names));
                            go_on = take(first + at, names)?;
                        }
                        Ok(Some(_)) => {}
                        Ok(None) => ended = true,
                        Err(Fault::Lost(error)) => return Err(error),
                        Err(fault) => {
                            faults[at] = Some(fault);
                            ended = true;
                        }
                    }
                }
                if !ended {
                    still.push((at, handle));
                }
            }
            open = still;
        }
        let mut wave = Wave::new(conn);
        close.iter().for_each(|handle| wave.ask(&Request::Close { handle }));
        while wave.next().is_some() {}
        failed.extend(faults);
    }
    Ok(failed)
}

/// The entries at `paths` as they are now.
pub(super) fn entries_at(tree: &Tree, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
    tree.pool().on_one(|conn| {
        let looked = tree.look(paths)?;
        let mut there = Vec::new();
        for (path, found) in paths.iter().zip(&looked.found) {
            if let Ok(Some(attrs)) = found {
                there.push((path.clone(), *attrs));
            }
        }
        let mut entries = complete(tree, conn, there)?.into_iter();
        let mut all = Vec::with_capacity(paths.len());
        for (path, found) in paths.iter().zip(looked.found) {
            all.push(match found {
                Ok(Some(_)) => entries.next().map_or(Ok(None), |(_, entry)| entry),
                Ok(None) => Ok(None),
                Err(fault) => Err(tree.error("look at", path, fault)),
            });
        }
        Ok(all)
    })
}

/// What a listing told, with what it may have left out: where links point, and whatever a server does not tell in
/// listings.
fn complete(
    tree: &Tree,
    conn: &Conn,
    found: Vec<(RelPath, Attrs)>,
) -> Result<Vec<(RelPath, Result<Option<Entry>>)>> {
    let lacks = |attrs: &Attrs| attrs.mode.is_none() || attrs.times.is_none() || attrs.size.is_none();
    let is_link = |attrs: &Attrs| attrs.mode.is_some_and(|mode| mode & KIND == tree::LINK);
    let mut wave = Wave::new(conn);
    for (path, attrs) in &found {
        if lacks(attrs) {
            wave.ask(&Request::Lstat { path: &tree.remote(path) });
        }
        // One that only turns out to be a link now is asked for as well.
        if lacks(attrs) || is_link(attrs) {
            wave.ask(&Request::Readlink { path: &tree.remote(path) });
        }
    }
    let mut entries = Vec::with_capacity(found.len());
    for (path, attrs) in found {
        let looked = if lacks(&attrs) { wave.expect().attrs() } else { Ok(attrs) };
        let target = (lacks(&attrs) || is_link(&attrs)).then(|| wave.expect().name());
        let entry = match (looked, target) {
            (Err(Fault::Lost(error)), _) | (_, Some(Err(Fault::Lost(error)))) => return Err(error),
            (Err(fault), _) if fault.is_missing() => Ok(None),
            (Err(fault), _) => Err(tree.error("look at", &path, fault)),
            (Ok(attrs), target) => entry(tree, &path, &attrs, target),
        };
        entries.push((path, entry));
    }
    Ok(entries)
}

fn entry(
    tree: &Tree,
    path: &RelPath,
    attrs: &Attrs,
    target: Option<Result<Vec<u8>, Fault>>,
) -> Result<Option<Entry>> {
    let cannot = |cause: &str| Err(tree.fault(ErrorKind::Unsupported, "copy", path, cause));
    let (Some(mode), Some((accessed, modified))) = (attrs.mode, attrs.times) else {
        return cannot("the server does not tell what it is");
    };
    let kind = match mode & KIND {
        tree::FILE => EntryKind::File,
        tree::DIR => EntryKind::Dir,
        tree::LINK => match target {
            Some(Ok(target)) => EntryKind::Symlink(target),
            Some(Err(fault)) if fault.is_missing() => return Ok(None),
            Some(Err(fault)) => return Err(tree.error("read the link", path, fault)),
            None => return cannot("the server does not tell where the link points"),
        },
        0o010_000 => EntryKind::Fifo,
        0o140_000 => EntryKind::Socket,
        0o020_000 | 0o060_000 => return cannot("SFTP does not tell the number of a device"),
        _ => return cannot("the server does not tell what it is"),
    };
    let (uid, gid) = attrs.owner.unwrap_or_default();
    let len = if kind == EntryKind::File { attrs.size.unwrap_or_default() } else { 0 };
    let time = |sec: u32| Timestamp { sec: sec.into(), nsec: 0 };
    // SFTP tells neither inodes nor holes.
    Ok(Some(Entry {
        mtime: time(modified),
        atime: time(accessed),
        mode: mode & 0o7777,
        uid,
        gid,
        ..Entry::new(path.clone(), kind, len)
    }))
}
