//! The writing end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_core::entry::Xattr;
use haul_core::policy::{self, Existing, ExistingKind, Verdict};
use haul_core::sync::Mutex;
use haul_core::{
    Answer, BatchData, Changes, ClearedPaths, Digest, Entry, EntryKind, Error, ErrorKind, FileTree,
    FinishReport, HardLink, Offer, Outcome, Preserve, RelPath, Result, SLICE_LEN, Side, Sink, SinkCaps,
    SinkOptions, SkipReason, Slice, SliceData, Timestamp, WriteDone,
};

use super::staged::{GrowingStream, StagedSlices};
use super::tree::{MemTree, MemTreeState};

/// A [`MemTree`] as a sink.
pub struct MemSink {
    tree: Arc<MemTree>,
    options: SinkOptions,
    /// Directories whose metadata is set at the end.
    dirs: Mutex<Vec<Arc<Entry>>>,
    cleared: ClearedPaths,
    /// Tells it from other sinks.
    run: u64,
}

fn fault(kind: ErrorKind, operation: &str, path: &RelPath, cause: &str) -> Error {
    Error::new(kind, Side::Destination, operation, cause).on(path.as_bytes())
}

/// The entry that becomes of `entry`, where the destination has `there`, or nothing yet.
fn taken_over(entry: &Entry, there: Option<&Entry>, preserve: &Preserve) -> Entry {
    let new = Entry::new(entry.path.clone(), entry.kind.clone(), entry.len);
    let new = Entry { mode: Preserve::new_mode(entry, 0o777), ..new };
    let there = there.unwrap_or(&new);
    let wanted = (entry.uid, entry.gid);
    let (uid, gid) = preserve.ids(wanted, (there.uid, there.gid));
    let of_times = if preserve.has_times(&entry.kind) { entry } else { there };
    let kept = there.xattrs.iter().filter(|(name, _)| !preserve.has_xattr(name));
    let mut xattrs: Vec<_> = preserve.xattrs_of(&entry.xattrs).chain(kept).cloned().collect();
    xattrs.sort();
    Entry {
        uid,
        gid,
        mode: preserve.mode(&preserve.with_mode(entry, || there.mode), wanted, (uid, gid)),
        mtime: of_times.mtime,
        atime: of_times.atime,
        xattrs,
        ..entry.clone()
    }
}

/// How the metadata that a sink sets differs.
fn metadata_changes(there: &Entry, wanted: &Entry) -> Changes {
    let xattrs: Vec<&Xattr> = wanted.xattrs.iter().collect();
    Changes::TIME.when(there.mtime != wanted.mtime)
        | Changes::MODE.when(there.mode != wanted.mode)
        | Changes::OWNER.when(there.uid != wanted.uid)
        | Changes::GROUP.when(there.gid != wanted.gid)
        | Preserve::default().xattr_changes(&there.xattrs, &xattrs)
}

struct MemEntry<'a> {
    entry: &'a Entry,
    options: &'a SinkOptions,
}

impl Existing for MemEntry<'_> {
    fn kind(&self) -> Option<ExistingKind> {
        Some(ExistingKind::from(&self.entry.kind))
    }

    fn size(&self) -> Option<u64> {
        Some(self.entry.len)
    }

    fn has_time(&self, time: Timestamp) -> bool {
        self.options.is_same_time(self.entry.mtime, time)
    }

    fn is_newer_than(&self, time: Timestamp) -> bool {
        self.entry.mtime > time && !self.has_time(time)
    }

    fn device(&self) -> Option<u64> {
        match self.entry.kind {
            EntryKind::CharDevice(number) | EntryKind::BlockDevice(number) => Some(number),
            _ => None,
        }
    }
}

impl MemSink {
    /// Writes to `tree` as `options` say.
    #[must_use]
    pub fn new(tree: &Arc<MemTree>, options: &SinkOptions) -> Self {
        static RUNS: AtomicU64 = AtomicU64::new(1);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        Self {
            tree: Arc::clone(tree),
            options: options.clone(),
            dirs: Mutex::default(),
            cleared: ClearedPaths::default(),
            run,
        }
    }

    fn verdict(&self, state: &MemTreeState, offer: &Offer) -> Verdict {
        let now = state.entry(&offer.entry.path);
        let there = now.as_ref().map(|entry| MemEntry { entry, options: &self.options });
        match self.cleared.decide(&self.options, offer, there.as_ref()) {
            Verdict::CompareTarget => {
                Verdict::of_comparison(now.is_some_and(|now| now.kind == offer.entry.kind))
            }
            Verdict::CompareDigest(digest) => {
                let inode = state.get(&offer.entry.path);
                Verdict::of_comparison(inode.is_some_and(|inode| Digest::of(&inode.content) == digest))
            }
            verdict => verdict,
        }
    }

    /// Whether a parent of `path` is not a directory.
    fn is_below_file(state: &MemTreeState, path: &RelPath) -> bool {
        let mut above = path.parent();
        while let Some(dir) = above {
            above = dir.parent();
            if state.get(&dir).is_some_and(|inode| !inode.entry.is_dir()) {
                return true;
            }
        }
        false
    }

    fn answer(&self, state: &mut MemTreeState, offer: &Offer) -> Result<Answer> {
        let entry = &offer.entry;
        entry.check_growing().map_err(|why| fault(ErrorKind::Unsupported, "make", &entry.path, why))?;
        if self.options.ignore_existing && Self::is_below_file(state, &entry.path) {
            return Ok(Answer::Left(SkipReason::Exists));
        }
        let verdict = self.verdict(state, offer);
        let changes = match verdict {
            Verdict::Left(left) => return Ok(Answer::Left(left)),
            Verdict::Same => return Ok(self.same(state, entry)),
            verdict => self.changes(state, entry, &verdict),
        };
        if !entry.is_dir() {
            self.clear(state, &entry.path)?;
        }
        if entry.is_file() {
            let staged = state.staged.get(&entry.path).filter(|staged| staged.identity == entry.identity());
            let have = staged.map(|staged| staged.tree.resumable()).unwrap_or_default();
            return Ok(Answer::Need { changes, have });
        }
        if !self.options.dry_run {
            state.make_parents(&entry.path);
            state.insert(taken_over(entry, None, &self.options.preserve), Vec::new());
        }
        self.later(entry);
        Ok(Answer::Made(changes))
    }

    /// How the entry at the place of `entry` differs from it.
    fn changes(&self, state: &MemTreeState, entry: &Entry, verdict: &Verdict) -> Changes {
        let now = state.entry(&entry.path);
        let there = now.as_ref().map(|entry| MemEntry { entry, options: &self.options });
        policy::changes(&self.options, entry, there.as_ref(), verdict, || {
            let metadata = |now| metadata_changes(now, &taken_over(entry, Some(now), &self.options.preserve));
            now.as_ref().map_or(Changes::NONE, metadata)
        })
    }

    /// Removes an empty directory in the place of something else.
    fn clear(&self, state: &mut MemTreeState, path: &RelPath) -> Result<()> {
        if state.get(path).is_some_and(|inode| inode.entry.is_dir()) {
            if state.has_children(path) {
                return Err(Error::not_empty(Side::Destination).on(path.as_bytes()));
            }
            if !self.options.dry_run {
                state.remove(path);
                self.cleared.add(&self.options, path);
            }
        }
        Ok(())
    }

    fn same(&self, state: &mut MemTreeState, entry: &Arc<Entry>) -> Answer {
        self.later(entry);
        let Some(there) = state.get_mut(&entry.path) else { return Answer::Same };
        let wanted = taken_over(entry, Some(&there.entry), &self.options.preserve);
        let changes = metadata_changes(&there.entry, &wanted);
        if changes.is_empty() {
            return Answer::Same;
        }
        if !self.options.dry_run && !entry.is_dir() {
            there.entry = Entry { allocated: there.entry.allocated, ..wanted };
        }
        Answer::Updated(changes.when(self.options.itemize))
    }

    /// Sets the metadata of a directory at the end, when nothing in it changes any more.
    fn later(&self, entry: &Arc<Entry>) {
        if entry.is_dir() {
            self.dirs.lock().push(Arc::clone(entry));
        }
    }

    fn take(
        &self,
        entry: &Entry,
        slice: Slice,
        data: &SliceData,
        content: &[u8],
        trusted: bool,
    ) -> Result<Outcome> {
        entry.check_growing().map_err(|why| fault(ErrorKind::Unsupported, "make", &entry.path, why))?;
        let is_kept = entry.is_stream() && data.same_len() == SLICE_LEN;
        let is_whole = is_kept || trusted || data.proves(entry, slice, content);
        if content.len() as u64 != data.data_len() || !is_whole {
            return Err(fault(
                ErrorKind::Corrupt,
                "verify",
                &entry.path,
                "the content does not match its proof",
            ));
        }
        if slice.part.is_some() || data.same_len() > 0 && !is_kept {
            return Err(fault(ErrorKind::Protocol, "write", &entry.path, "a whole slice was asked for"));
        }
        let mut state = self.tree.state();
        let identity = entry.identity();
        let new = || StagedSlices {
            identity,
            tree: FileTree::new(entry.len),
            bytes: if entry.is_stream() { Vec::new() } else { vec![0; entry.len as usize] },
            allocated: 0,
            growth: GrowingStream::default(),
        };
        let staged = state.staged.entry(entry.path.clone()).or_insert_with(new);
        if staged.identity != identity {
            *staged = new();
        }
        staged.grow(entry, self.run, slice.index);
        if is_kept {
            let cause = "nothing of the slice is left";
            let lacks = || fault(ErrorKind::Corrupt, "compare", &entry.path, cause);
            return staged.keeps(slice.index, data.value).then_some(Outcome::Stored).ok_or_else(lacks);
        }
        if staged.bytes.len() < slice.start() as usize + content.len() {
            return Err(fault(ErrorKind::Protocol, "write", &entry.path, "the stream has ended before"));
        }
        if !staged.tree.has(slice.index) {
            let (mut used, start) = (0, slice.start() as usize);
            for extent in &data.extents {
                let (at, len) = (start + extent.start as usize, extent.len as usize);
                staged.bytes[at..at + len].copy_from_slice(&content[used..used + len]);
                used += len;
            }
            staged.allocated += used as u64;
            staged.tree.set(slice.index, data.value);
        }
        let Some(digest) = staged.tree.digest() else { return Ok(Outcome::Stored) };
        self.commit(&mut state, entry)?;
        Ok(Outcome::Committed(Some(digest)))
    }

    /// Renames a complete file into place.
    fn commit(&self, state: &mut MemTreeState, entry: &Entry) -> Result<()> {
        self.clear(state, &entry.path)?;
        let Some(staged) = state.staged.remove(&entry.path) else { return Ok(()) };
        state.make_parents(&entry.path);
        let replaced = state.entry(&entry.path).filter(Entry::is_file).map(|there| there.mode);
        let new = taken_over(entry, None, &self.options.preserve);
        let new = match replaced.filter(|_| !self.options.preserve.perms) {
            Some(mode) => Entry { mode: Preserve::replacing_mode(mode), ..new },
            None => new,
        };
        state.insert(Entry { allocated: staged.allocated, ..new }, staged.bytes);
        Ok(())
    }

    fn link_one(&self, link: &HardLink) -> Result<Answer> {
        let (path, state) = (&link.entry.path, &mut *self.tree.state());
        let Some(to) = state.names.get(&link.to).copied() else {
            return Err(Error::no_first_name(Side::Destination).on(path.as_bytes()));
        };
        match state.names.get(path).copied() {
            Some(there) if there == to => return Ok(Answer::Same),
            Some(_) if self.options.ignore_existing => return Ok(Answer::Left(SkipReason::Exists)),
            None if self.options.existing => return Ok(Answer::Left(SkipReason::Missing)),
            _ => {}
        }
        let changes = self.changes(state, &link.entry, &Verdict::Differs);
        self.clear(state, path)?;
        if !self.options.dry_run {
            state.make_parents(path);
            state.link(path, &link.to);
        }
        Ok(Answer::Made(changes))
    }
}

impl Sink for MemSink {
    fn caps(&self) -> SinkCaps {
        SinkCaps { growing: true, ..SinkCaps::default() }
    }

    fn offer(&self, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
        let mut state = self.tree.state();
        Ok(offers.iter().map(|offer| self.answer(&mut state, offer)).collect())
    }

    fn write(&self, data: BatchData, done: WriteDone) {
        let mut used = 0;
        let mut outcomes = Vec::with_capacity(data.slices.len());
        for ((entry, slice), read) in data.batch.iter().zip(&data.slices) {
            outcomes.push(read.as_ref().map_err(Clone::clone).and_then(|read| {
                let len = read.data_len() as usize;
                let content = data.content.bytes().get(used..used + len).unwrap_or_default();
                used += len;
                self.take(entry, slice, read, content, data.at_hand)
            }));
        }
        drop(data);
        done(outcomes);
    }

    fn flush(&self) {}

    fn discard(&self, paths: &[RelPath]) -> Result<()> {
        let mut state = self.tree.state();
        for path in paths {
            state.staged.remove(path);
        }
        Ok(())
    }

    fn link(&self, links: &[HardLink]) -> Result<Vec<Result<Answer>>> {
        Ok(links.iter().map(|link| self.link_one(link)).collect())
    }

    fn remove(&self, paths: &[RelPath]) -> Result<Vec<Result<()>>> {
        let mut state = self.tree.state();
        let mut gone: Vec<&RelPath> = Vec::new();
        let mut remove = |path| {
            let is_full = if self.options.dry_run {
                let mut inside = state.names.keys().filter(|name| name.parent().as_ref() == Some(path));
                inside.any(|name| !gone.contains(&name))
            } else {
                state.has_children(path)
            };
            if is_full {
                return Err(fault(ErrorKind::NotEmpty, "remove", path, "the directory is not empty"));
            }
            if self.options.dry_run {
                gone.push(path);
            } else {
                state.remove(path);
                self.cleared.add(&self.options, path);
            }
            Ok(())
        };
        Ok(paths.iter().map(&mut remove).collect())
    }

    fn finish(&self) -> Result<FinishReport> {
        let mut state = self.tree.state();
        let dirs = std::mem::take(&mut *self.dirs.lock());
        for dir in dirs.iter().filter(|_| !self.options.dry_run) {
            if let Some(there) = state.get_mut(&dir.path).filter(|there| there.entry.is_dir()) {
                there.entry = taken_over(dir, Some(&there.entry), &self.options.preserve);
            }
        }
        Ok(FinishReport::default())
    }
}
