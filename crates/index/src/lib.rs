//! What an earlier run saw in a source, folder by folder, so that the next one need not look again.
//!
//! A folder whose times and inode are those of before holds the same names as before: what is in it is then told from
//! the index, and only its own folders are looked at, each by itself. An index says nothing of any destination, and
//! of no rules: what rules leave out is left out when it is told. So it can be wrong in one way only: what was changed
//! in place (content written into a file that was there, its mode, owner, times and attributes) leaves the times of
//! the folder alone, and is not seen. That heals when the folder is read again: when a name in it changes, and at the
//! latest when it was read too long ago.
//!
//! Names that are kept are sorted outside of memory ([`haul_spool::Sorter`]); those of folders that are as they were
//! are taken over from the file before. Of that only the beginning of each block is in memory.

mod format;
mod recording;
mod stored;
mod writer;

#[cfg(test)]
mod tests;

use haul_core::sync::{Mutex, MutexGuard};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haul_core::{Entry, RelPath, Timestamp};
use haul_spool::Sorter;

pub use format::Stamp;
pub use recording::Recording;

use format::{Folder, Record};
use recording::{Seens, Sighting};
use stored::{Refused, Stored};
use writer::Writer;

/// A folder that was changed so shortly before it was listed may change again without another time: file systems count
/// in seconds, or two (FAT).
const DOUBTFUL: Duration = Duration::from_secs(2);

/// The index of one source, for one run. It is used from many threads at once.
pub struct Index {
    path: PathBuf,
    source: Vec<u8>,
    dev: u64,
    refresh: Duration,
    stored: Option<Stored>,
    /// Folders that are as they are in the file, by their number there.
    same: Mutex<Vec<bool>>,
    kept: Mutex<Sorter<Sighting>>,
    /// Why no new file can be written.
    failure: Mutex<Option<io::Error>>,
    whole: AtomicBool,
    told: AtomicU64,
    listed: AtomicU64,
    oldest: AtomicU64,
}

/// What a run had of its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Folders whose names were told from the index.
    pub told: u64,
    /// Folders that were listed.
    pub listed: u64,
    /// How long ago the first of those that were told had been listed.
    pub oldest: Duration,
}

/// A folder that holds the same names as before.
pub struct Known<'a> {
    stored: &'a Stored,
    found: stored::Found,
    path: RelPath,
    dev: u64,
}

impl Known<'_> {
    /// How many names in it are no part of the source.
    #[must_use]
    pub fn hidden(&self) -> u64 {
        self.found.folder.hidden
    }

    /// What is in it, as it was when it was listed, without names of owners.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn entries(&self) -> io::Result<impl Iterator<Item = io::Result<Entry>>> {
        let (before, now) = (self.stored.footer.dev, self.dev);
        let entries = self.stored.entries(&self.path, &self.found)?;
        Ok(entries.map(move |entry| {
            let mut entry = entry?;
            entry.dev = if entry.dev == before { now } else { entry.dev };
            Ok(entry)
        }))
    }
}

impl Index {
    /// The index at `path` (which must be absolute) of the source at `source`, whose root is on the device `dev`.
    /// Folders that were listed longer than `refresh` ago are to be listed again. With it comes why the file that is
    /// there is not used, if so.
    #[must_use]
    pub fn open(path: &Path, source: &[u8], dev: u64, refresh: Duration) -> (Self, Option<String>) {
        let (stored, refused) = match Stored::open(path, source) {
            Ok(stored) => (Some(stored), None),
            Err(Refused::Missing) => (None, None),
            Err(Refused::Because(why)) => (None, Some(why)),
        };
        let folders = stored.as_ref().map_or(0, |stored| stored.footer.folders);
        let index = Self {
            path: path.to_owned(),
            source: source.to_owned(),
            dev,
            refresh,
            stored,
            same: Mutex::new(vec![false; usize::try_from(folders).unwrap_or_default()]),
            kept: Mutex::default(),
            failure: Mutex::default(),
            whole: AtomicBool::new(false),
            told: AtomicU64::new(0),
            listed: AtomicU64::new(0),
            oldest: AtomicU64::new(0),
        };
        (index, refused)
    }

    /// The folder at `path`, if it is known and its stamp, as it is now, is that of before.
    pub fn folder(&self, path: &RelPath, stamp: &Stamp) -> Option<Known<'_>> {
        let stored = self.stored.as_ref()?;
        let found = stored.folder(path).ok()??;
        let age = u64::try_from(now().sec.checked_sub(found.folder.read)?).ok()?;
        let before = self.renumbered(found.folder.stamp)?;
        if before != *stamp || age >= self.refresh.as_secs() {
            return None;
        }
        *lock(&self.same).get_mut(usize::try_from(found.number).ok()?)? = true;
        self.told.fetch_add(1, Ordering::Relaxed);
        self.oldest.fetch_max(age, Ordering::Relaxed);
        Some(Known { stored, found, path: path.clone(), dev: self.dev })
    }

    /// The stamp with the number that its device has now. That of another one than the root's cannot be told once that
    /// has changed.
    fn renumbered(&self, stamp: Stamp) -> Option<Stamp> {
        let before = self.stored.as_ref()?.footer.dev;
        match stamp.dev {
            dev if dev == before => Some(Stamp { dev: self.dev, ..stamp }),
            _ => (before == self.dev).then_some(stamp),
        }
    }

    /// The folder at `path` is about to be listed; this was its stamp before. `None`: it cannot be recorded, as it was
    /// changed a moment ago.
    pub fn record(&self, path: &RelPath, stamp: Stamp) -> Option<Recording<'_>> {
        self.listed.fetch_add(1, Ordering::Relaxed);
        let now = now();
        let settled = Timestamp { sec: now.sec.saturating_sub(DOUBTFUL.as_secs() as i64), ..now };
        (stamp.mtime < settled && stamp.ctime < settled).then(|| Recording::new(self, path, stamp, now.sec))
    }

    fn keep(&self, sighting: Sighting) {
        if let Err(error) = lock(&self.kept).push(sighting) {
            lock(&self.failure).get_or_insert(error);
        }
    }

    /// Which of the paths are known to be there, as their folders are as they were. The others may be there or not.
    #[must_use]
    pub fn holds(&self, paths: &[RelPath]) -> Vec<bool> {
        let mut there = vec![false; paths.len()];
        let mut at = 0;
        while let Some(path) = paths.get(at) {
            let parent = path.parent();
            let like = paths[at..].iter().take_while(|path| path.parent() == parent).count();
            let names: Vec<&[u8]> = paths[at..at + like].iter().map(RelPath::name).collect();
            if let Some(found) = parent.and_then(|parent| self.names(&parent, &names)) {
                there[at..at + like].copy_from_slice(&found);
            }
            at += like;
        }
        there
    }

    fn names(&self, folder: &RelPath, names: &[&[u8]]) -> Option<Vec<bool>> {
        let stored = self.stored.as_ref()?;
        let found = stored.folder(folder).ok()??;
        let same = *lock(&self.same).get(usize::try_from(found.number).ok()?)?;
        if same { stored.names(folder, names).ok() } else { None }
    }

    /// All of the source was looked at.
    pub fn scanned(&self) {
        self.whole.store(true, Ordering::Relaxed);
    }

    /// What there was of it.
    #[must_use]
    pub fn used(&self) -> Use {
        Use {
            told: self.told.load(Ordering::Relaxed),
            listed: self.listed.load(Ordering::Relaxed),
            oldest: Duration::from_secs(self.oldest.load(Ordering::Relaxed)),
        }
    }

    /// Writes what is known now in the place of what was there before: a reader sees one or the other. Does nothing
    /// if not all of the source was looked at, or if nothing is new.
    ///
    /// # Errors
    /// If it cannot be written; then the file is as it was.
    pub fn save(&self) -> io::Result<()> {
        if !self.whole.load(Ordering::Relaxed) {
            return Ok(());
        }
        if let Some(error) = lock(&self.failure).take() {
            return Err(error);
        }
        let kept = std::mem::take(&mut *lock(&self.kept));
        let same = lock(&self.same);
        let renumbered = self.stored.as_ref().is_none_or(|stored| stored.footer.dev != self.dev);
        if kept.is_empty() && !renumbered && same.iter().all(|same| *same) {
            return Ok(());
        }
        let dir = self.path.parent().ok_or_else(|| io::Error::other("the index has no folder"))?;
        let mut writer = Writer::new(dir, &self.source, self.dev)?;
        let mut new = Seens(kept.sorted()?.peekable());
        let mut next_new = new.next_folder()?;
        let mut number = 0;
        let mut taking = false;
        let before = self.stored.as_ref();
        for record in before.map(Stored::records).transpose()?.into_iter().flatten() {
            match record? {
                Record::Folder(path, folder) => {
                    while next_new.as_ref().is_some_and(|(new, _)| *new < path) {
                        next_new = write_folder(&mut writer, &mut new, next_new)?;
                    }
                    // What was listed anew counts, if both are there.
                    taking = same.get(number).is_some_and(|same| *same)
                        && next_new.as_ref().is_none_or(|(new, _)| *new != path);
                    number += 1;
                    if taking {
                        let stamp = self.renumbered(folder.stamp).unwrap_or(folder.stamp);
                        writer.folder(path, Folder { stamp, ..folder })?;
                    }
                }
                Record::Seen(mut seen) if taking => {
                    seen.renumber(before.map_or(self.dev, |before| before.footer.dev), self.dev);
                    writer.seen(seen)?;
                }
                Record::Seen(_) => {}
            }
        }
        while next_new.is_some() {
            next_new = write_folder(&mut writer, &mut new, next_new)?;
        }
        writer.finish(&self.path)
    }
}

/// Writes a folder that was listed, and gives the next one.
fn write_folder(
    writer: &mut Writer,
    new: &mut Seens<impl Iterator<Item = io::Result<Sighting>>>,
    folder: Option<(RelPath, Folder)>,
) -> io::Result<Option<(RelPath, Folder)>> {
    if let Some((path, folder)) = folder {
        writer.folder(path.clone(), folder)?;
        while let Some(seen) = new.next_in(&path)? {
            writer.seen(seen)?;
        }
    }
    new.next_folder()
}

/// A name for the index of what is told by these words, which cannot be read from it.
#[must_use]
pub fn name_of(words: &[&[u8]]) -> String {
    let mut hasher = blake3::Hasher::new();
    for word in words {
        hasher.update(&(word.len() as u64).to_le_bytes()).update(word);
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

/// The time by the clock of this machine.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp { sec: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nsec: since.subsec_nanos() }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
