//! Lists directories: several side by side on one connection, with many requests in flight.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use haul_core::{Error, ErrorKind, Result, Side};

use super::checks::weight;
use super::conn::Conn;
use super::packet::{DirNames, SftpRequest};
use super::pipeline::Pipeline;
use super::reply::Fault;

/// Directories that one thread lists side by side.
pub(super) const SIDE_BY_SIDE: usize = 32;
/// Requests in flight for one listing, round by round: few at first, as most directories are small. OpenSSH sends up to
/// a hundred names in each answer.
const AHEAD: [usize; 4] = [2, 4, 16, 64];
/// Memory for the answers that one thread has in flight.
const PARTS: u64 = 4 * 1024 * 1024;
/// The memory of one answer, until a larger one has come.
const PART: u64 = 16 * 1024;
/// Answers without names that may come in a row.
const EMPTY: u32 = 1000;

/// Detects a listing that never ends: no two parts of an honest one hold the same names.
#[derive(Default)]
struct LoopDetector {
    parts: u64,
    /// The hash of an earlier part, replaced whenever the number of parts has doubled.
    kept: u64,
    /// Empty parts in a row.
    empty: u32,
}

impl LoopDetector {
    /// Takes the next part. `true`: the listing repeats itself, or is empty for too long.
    fn is_endless(&mut self, hasher: &RandomState, names: &DirNames) -> bool {
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

/// Takes a part of the listing of one of several directories, given by its number. `false` ends all of them.
pub(super) type TakeNames<'a> = &'a mut dyn FnMut(usize, DirNames) -> Result<bool>;

/// Lists directories. Returns why those could not be listed that failed.
///
/// # Errors
/// If the connection is lost, a listing never ends, or `take` fails.
pub(super) fn list(conn: &Conn, dirs: &[Vec<u8>], take: TakeNames<'_>) -> Result<Vec<Option<Fault>>> {
    let mut faults = Vec::with_capacity(dirs.len());
    let at_once = conn.files_at_once().min(SIDE_BY_SIDE);
    for (chunk, some) in dirs.chunks(at_once).enumerate() {
        let _handles = conn.handles(some.len());
        let first = chunk * at_once;
        let mut listings = Listings::open(conn, some)?;
        let handles: Vec<Vec<u8>> = listings.open.iter().map(|(_, handle)| handle.clone()).collect();
        let mut goes_on = true;
        while !listings.open.is_empty() && goes_on {
            goes_on = listings.read_on(conn, &mut |at, names| take(first + at, names))?;
        }
        let mut pipeline = Pipeline::new(conn);
        handles.iter().for_each(|handle| pipeline.ask(&SftpRequest::Close { handle }));
        while pipeline.next().is_some() {}
        faults.extend(listings.faults);
    }
    Ok(faults)
}

/// Whether each of these directories has an entry that `counts`. One that cannot be listed has none.
///
/// # Errors
/// As [`list`].
pub(super) fn have_entries(
    conn: &Conn,
    dirs: &[Vec<u8>],
    counts: impl Fn(&[u8]) -> bool,
) -> Result<Vec<bool>> {
    let mut have = Vec::with_capacity(dirs.len());
    // As many as `list` takes side by side, so that it ends when each has shown an entry.
    for dirs in dirs.chunks(conn.files_at_once().min(SIDE_BY_SIDE)) {
        let mut some = vec![false; dirs.len()];
        list(conn, dirs, &mut |at, names| {
            some[at] |= names.iter().any(|(name, _)| !matches!(&name[..], b"." | b"..") && counts(name));
            Ok(some.contains(&false))
        })?;
        have.append(&mut some);
    }
    Ok(have)
}

/// The listings that are in progress side by side.
struct Listings<'a> {
    dirs: &'a [Vec<u8>],
    faults: Vec<Option<Fault>>,
    /// The directories that have not ended: their numbers and handles.
    open: Vec<(usize, Vec<u8>)>,
    loops: Vec<LoopDetector>,
    hasher: RandomState,
    /// Memory of the largest answer.
    largest: u64,
    round: usize,
}

impl<'a> Listings<'a> {
    /// Opens all of them.
    fn open(conn: &Conn, dirs: &'a [Vec<u8>]) -> Result<Self> {
        let mut pipeline = Pipeline::new(conn);
        dirs.iter().for_each(|path| pipeline.ask(&SftpRequest::Opendir { path }));
        let mut open = Vec::new();
        let mut faults: Vec<Option<Fault>> = vec![None; dirs.len()];
        for (at, slot) in faults.iter_mut().enumerate() {
            match pipeline.next_reply().handle() {
                Ok(handle) => open.push((at, handle)),
                Err(Fault::Lost(error)) => return Err(error),
                Err(fault) => *slot = Some(fault),
            }
        }
        let loops = dirs.iter().map(|_| LoopDetector::default()).collect();
        Ok(Self { dirs, faults, open, loops, hasher: RandomState::new(), largest: PART, round: 0 })
    }

    /// Requests more of each directory that has not ended, and takes the answers. `false` once `take` has had enough.
    fn read_on(&mut self, conn: &Conn, take: TakeNames<'_>) -> Result<bool> {
        let most = (PARTS / self.largest / self.open.len() as u64).max(1);
        let ahead = AHEAD[self.round.min(AHEAD.len() - 1)].min(usize::try_from(most).unwrap_or(1));
        self.round += 1;
        let mut pipeline = Pipeline::new(conn);
        for (_, handle) in &self.open {
            (0..ahead).for_each(|_| pipeline.ask(&SftpRequest::Readdir { handle }));
        }
        let mut still = Vec::new();
        let mut goes_on = true;
        for (at, handle) in std::mem::take(&mut self.open) {
            let mut ended = false;
            for _ in 0..ahead {
                match pipeline.next_reply().names() {
                    Ok(Some(names)) if self.loops[at].is_endless(&self.hasher, &names) => {
                        let cause = "the server tells the same names again and again";
                        let error = Error::new(ErrorKind::Protocol, Side::Wire, "list the directory", cause);
                        return Err(error.on(&self.dirs[at]));
                    }
                    Ok(Some(names)) if goes_on => {
                        self.largest = self.largest.max(weight(&names));
                        goes_on = take(at, names)?;
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => ended = true,
                    Err(Fault::Lost(error)) => return Err(error),
                    Err(fault) => {
                        self.faults[at] = Some(fault);
                        ended = true;
                    }
                }
            }
            if !ended {
                still.push((at, handle));
            }
        }
        self.open = still;
        Ok(goes_on)
    }
}
