//! The index of a source during a run.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use haul_core::sync::Mutex;
use haul_core::{RelPath, Timestamp};

use crate::format::{IndexRecord, IndexedDirectory, Stamp};
use crate::known::KnownDir;
use crate::recording::{Kept, Recording};
use crate::sighting::{Seens, Sighting};
use crate::stored::{IndexRefusal, StoredIndex};
use crate::writer::Writer;

/// A directory that changed so shortly before its listing may change again without a new time: file systems count in
/// seconds, or in two (FAT).
const DOUBTFUL: Duration = Duration::from_secs(2);

/// The index of one source during one run. Many threads may use it.
pub struct Index {
    path: PathBuf,
    source: Vec<u8>,
    dev: u64,
    refresh: Duration,
    stored: Option<StoredIndex>,
    /// Which directories of the file are unchanged, by number.
    same: Mutex<Vec<bool>>,
    kept: Kept,
    whole: AtomicBool,
    from_index: AtomicU64,
    listed: AtomicU64,
    oldest: AtomicU64,
}

/// How much a run has used its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Directories whose entries came from the index.
    pub from_index: u64,
    /// Directories that were listed.
    pub listed: u64,
    /// The age of the oldest listing among the former.
    pub oldest: Duration,
}

impl Index {
    /// Opens the index at `path` (which must be absolute) of the source at `source`, whose root is on the device `dev`.
    /// Directories listed longer than `refresh` ago are to be listed again. Also returns why an existing file is not
    /// used, if so.
    #[must_use]
    pub fn open(path: &Path, source: &[u8], dev: u64, refresh: Duration) -> (Self, Option<String>) {
        let (stored, refused) = match StoredIndex::open(path, source) {
            Ok(stored) => (Some(stored), None),
            Err(IndexRefusal::Missing) => (None, None),
            Err(IndexRefusal::Because(why)) => (None, Some(why)),
        };
        let directories = stored.as_ref().map_or(0, |stored| stored.footer.directories);
        let index = Self {
            path: path.to_owned(),
            source: source.to_owned(),
            dev,
            refresh,
            stored,
            same: Mutex::new(vec![false; usize::try_from(directories).unwrap_or_default()]),
            kept: Kept::default(),
            whole: AtomicBool::new(false),
            from_index: AtomicU64::new(0),
            listed: AtomicU64::new(0),
            oldest: AtomicU64::new(0),
        };
        (index, refused)
    }

    /// The directory at `path`, if it is in the index with an equal stamp.
    pub fn directory(&self, path: &RelPath, stamp: &Stamp) -> Option<KnownDir<'_>> {
        let stored = self.stored.as_ref()?;
        let found = stored.directory(path).ok()??;
        let age = u64::try_from(Timestamp::now().sec.checked_sub(found.directory.read)?).ok()?;
        let before = self.renumbered(found.directory.stamp)?;
        if before != *stamp || age >= self.refresh.as_secs() {
            return None;
        }
        *self.same.lock().get_mut(usize::try_from(found.number).ok()?)? = true;
        self.from_index.fetch_add(1, Ordering::Relaxed);
        self.oldest.fetch_max(age, Ordering::Relaxed);
        Some(KnownDir { stored, found, path: path.clone(), dev: self.dev })
    }

    /// The stamp with its device's number in the file. If devices were renumbered, those other than the root's are
    /// unknown.
    fn renumbered(&self, stamp: Stamp) -> Option<Stamp> {
        let before = self.stored.as_ref()?.footer.dev;
        match stamp.dev {
            dev if dev == before => Some(Stamp { dev: self.dev, ..stamp }),
            _ => (before == self.dev).then_some(stamp),
        }
    }

    /// Begins to record the directory at `path`, which had this stamp before it is listed. `None` if it changed too
    /// recently to be recorded.
    pub fn record(&self, path: &RelPath, stamp: Stamp) -> Option<Recording<'_>> {
        self.listed.fetch_add(1, Ordering::Relaxed);
        let now = Timestamp::now();
        let settled = Timestamp { sec: now.sec.saturating_sub(DOUBTFUL.as_secs() as i64), ..now };
        (stamp.mtime < settled && stamp.ctime < settled)
            .then(|| Recording::new(&self.kept, path, stamp, now.sec))
    }

    /// Which of the paths are known to exist, because their directories are unchanged. Others may exist or not.
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

    fn names(&self, directory: &RelPath, names: &[&[u8]]) -> Option<Vec<bool>> {
        let stored = self.stored.as_ref()?;
        let found = stored.directory(directory).ok()??;
        let same = *self.same.lock().get(usize::try_from(found.number).ok()?)?;
        if same { stored.names(directory, names).ok() } else { None }
    }

    /// The scan of the source is complete.
    pub fn scanned(&self) {
        self.whole.store(true, Ordering::Relaxed);
    }

    /// How much the index was used.
    #[must_use]
    pub fn used(&self) -> Use {
        Use {
            from_index: self.from_index.load(Ordering::Relaxed),
            listed: self.listed.load(Ordering::Relaxed),
            oldest: Duration::from_secs(self.oldest.load(Ordering::Relaxed)),
        }
    }

    /// Writes a new index, which replaces the previous one atomically. Does nothing if the scan was not complete, or if
    /// nothing is new.
    ///
    /// # Errors
    /// The error of writing it; then the previous file is unchanged.
    pub fn save(&self) -> io::Result<()> {
        if !self.whole.load(Ordering::Relaxed) {
            return Ok(());
        }
        let kept = self.kept.take()?;
        let same = self.same.lock();
        let renumbered = self.stored.as_ref().is_none_or(|stored| stored.footer.dev != self.dev);
        if kept.is_empty() && !renumbered && same.iter().all(|same| *same) {
            return Ok(());
        }
        let dir = self.path.parent().ok_or_else(|| io::Error::other("the index has no directory"))?;
        let mut writer = Writer::new(dir, &self.source, self.dev)?;
        let mut new = Seens(kept.sorted()?.peekable());
        let mut next_new = new.next_directory()?;
        let mut number = 0;
        let mut taking = false;
        let before = self.stored.as_ref();
        for record in before.map(StoredIndex::records).transpose()?.into_iter().flatten() {
            match record? {
                IndexRecord::IndexedDirectory(path, directory) => {
                    while next_new.as_ref().is_some_and(|(new, _)| *new < path) {
                        next_new = write_directory(&mut writer, &mut new, next_new)?;
                    }
                    // If both exist, the new listing counts.
                    taking = same.get(number).is_some_and(|same| *same)
                        && next_new.as_ref().is_none_or(|(new, _)| *new != path);
                    number += 1;
                    if taking {
                        let stamp = self.renumbered(directory.stamp).unwrap_or(directory.stamp);
                        writer.directory(path, IndexedDirectory { stamp, ..directory })?;
                    }
                }
                IndexRecord::Seen(mut seen) if taking => {
                    seen.renumber(before.map_or(self.dev, |before| before.footer.dev), self.dev);
                    writer.seen(seen)?;
                }
                IndexRecord::Seen(_) => {}
            }
        }
        while next_new.is_some() {
            next_new = write_directory(&mut writer, &mut new, next_new)?;
        }
        writer.finish(&self.path)
    }
}

/// Writes a directory that was listed, and returns the next one.
fn write_directory(
    writer: &mut Writer,
    new: &mut Seens<impl Iterator<Item = io::Result<Sighting>>>,
    directory: Option<(RelPath, IndexedDirectory)>,
) -> io::Result<Option<(RelPath, IndexedDirectory)>> {
    if let Some((path, directory)) = directory {
        writer.directory(path.clone(), directory)?;
        while let Some(seen) = new.next_in(&path)? {
            writer.seen(seen)?;
        }
    }
    new.next_directory()
}
