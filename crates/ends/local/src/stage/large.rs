//! Large files: written slice by slice, staged or in place.

use haul_core::sync::{Mutex, MutexGuard, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use haul_core::digest::slice_count;
use haul_core::entry::GROWING;
use haul_core::journal::JournalHeader;
use haul_core::{
    ChainingValue, Digest, Entry, Error, FileTree, Result, SLICE_LEN, SinkOptions, Slice, SliceData,
    SliceParts,
};

use super::journal::{self, Journal, JournalContent};
use super::mark;
use super::names::{journal_of, remove_if};
use super::recheck::Recheck;
use super::staged::Staged;
use super::write::{OutputFile, Over, Same, overwrite};
use crate::delta::share::{share, shares_blocks};
use crate::read::digest;
use crate::read::file::STEP;
use crate::read::page_cache::{self, sync_and_drop, sync_in_place};
use crate::tree::local_tree::LocalTree;

/// Locks for writing slices of one file, shared by their indices.
const LOCK_STRIPES: usize = 16;

/// A slice, and the chaining value of its content.
pub(crate) type HashedSlice = (u32, ChainingValue);

/// A large file that is being written slice by slice.
pub(crate) struct LargeFile {
    /// The entry that it was opened with; of a stream, one that is growing.
    opened: Arc<Entry>,
    /// The entry of a stream, once its length is known.
    end: OnceLock<Arc<Entry>>,
    pub(crate) staged: Staged,
    progress: Mutex<SlicesProgress>,
    /// Set once all slices are written. From then on nothing is written, which would change the modification time.
    sealed: RwLock<bool>,
    /// Whether the content that an interrupted run has left was verified.
    pub(crate) recheck: Recheck,
    /// The outcome of the file.
    ended: OnceLock<Result<Digest>>,
    /// The key that ties the journal to the staged file.
    key: [u8; 16],
    /// The file has its final name already.
    pub(crate) in_place: bool,
    /// The file system shares blocks.
    shares: bool,
    is_on_network_fs: bool,
    /// It will be synced.
    durable: bool,
    /// Ranges that were not written yet may hold something else than holes.
    is_dirty: AtomicBool,
    /// The stripe of a slice is locked while it is written, because a slice may be sent twice.
    lock_stripes: [Mutex<()>; LOCK_STRIPES],
}

struct SlicesProgress {
    tree: FileTree,
    /// Of a stream: the slices that its journal had, until they are written or prove to be the same.
    found: BTreeMap<u32, ChainingValue>,
    /// Slices of which some parts are written. They count once they are whole.
    parts: SliceParts,
    /// Slices that are written while they arrive, each with the number of the copy that may write it: the last one.
    arriving: HashMap<u32, u64>,
    copies: u64,
    /// Written, not yet synced.
    dirty: Vec<HashedSlice>,
    /// Synced, not yet recorded.
    durable: Vec<HashedSlice>,
    journal: Option<Journal>,
}

impl SlicesProgress {
    /// Begins with the slices that an interrupted run has left. Those of a file of the source count at once, those of
    /// a stream only after a comparison with its content.
    fn new(entry: &Entry, found: &JournalContent) -> Self {
        let mut tree = FileTree::new(entry.len);
        let mut known = BTreeMap::new();
        for (index, value) in &found.slices {
            if entry.is_stream() {
                // The last record of a slice is that of its content.
                known.insert(*index, *value);
            } else {
                tree.set(*index, *value);
            }
        }
        // Slices that were not synced are recorded again once they were read back.
        let durable = match found.synced {
            true if entry.is_stream() => known.iter().map(|(index, value)| (*index, *value)).collect(),
            true => found.slices.clone(),
            false => Vec::new(),
        };
        Self {
            tree,
            found: known,
            parts: SliceParts::default(),
            arriving: HashMap::new(),
            copies: 0,
            dirty: Vec::new(),
            durable,
            journal: None,
        }
    }

    /// A slice is in place.
    fn add(&mut self, index: u32, value: ChainingValue) {
        self.tree.set(index, value);
        self.found.remove(&index);
        self.dirty.push((index, value));
    }
}

/// A staged file that is ready for its slices, and the slices that an interrupted run has left in it.
struct Prepared {
    staged: Staged,
    found: JournalContent,
    key: [u8; 16],
    in_place: bool,
}

impl Prepared {
    /// Opens the existing file, if it is to be updated in place. Else makes the staged file of the entry, or resumes
    /// the one of an interrupted run with the slices of its journal.
    fn open(tree: &LocalTree, entry: &Entry, in_place: bool) -> Result<Self> {
        let root = &tree.root;
        let existing = if in_place { Staged::in_place(tree, &entry.path)? } else { None };
        if let Some(staged) = existing {
            sync_in_place(&root.ops, &staged.file);
            return Ok(Self { staged, found: JournalContent::default(), key: [0; 16], in_place: true });
        }
        let mut staged = Staged::open(tree, &entry.path)?;
        let mut found = JournalContent::default();
        if staged.found {
            found = journal::load(&journal_of(&staged.at), &entry.identity(), &staged.file);
            if !found.slices.is_empty() && sync_and_drop(&root.ops, &staged.file).is_err() {
                found = JournalContent::default();
            }
        }
        if !found.slices.is_empty() {
            let key = mark::key_of(&staged.file);
            return Ok(Self { staged, found, key, in_place: false });
        }
        // A journal without its file is removed before a file is made: inode numbers are reused.
        journal_of(&staged.at).remove().map_err(|errno| root.error("write", &entry.path, errno))?;
        if staged.found {
            // The old file is not reused: pages that could not be written to the disk would look clean.
            remove_if(&staged.part, &staged.now);
            drop(staged);
            staged = Staged::open(tree, &entry.path)?;
        }
        root.ops.some(2);
        staged.file.set_len(0).map_err(|e| stage_error(tree, entry, &e))?;
        let key = mark::give_key(&staged.file);
        Ok(Self { staged, found, key, in_place: false })
    }
}

fn stage_error(tree: &LocalTree, entry: &Entry, error: &io::Error) -> Error {
    Error::io(tree.root.side(), "write", error).on(tree.root.shown(&entry.path))
}

impl LargeFile {
    pub(crate) fn open(tree: &LocalTree, entry: &Arc<Entry>, options: &SinkOptions) -> Result<Self> {
        let opened = if entry.is_stream() && !entry.is_growing() {
            Arc::new(Entry { len: GROWING, ..(**entry).clone() })
        } else {
            entry.clone()
        };
        let Prepared { mut staged, found, key, in_place } = Prepared::open(tree, entry, options.in_place)?;
        staged.keyed = key != [0; 16];
        if !opened.is_growing() {
            tree.root.ops.one();
            staged.file.set_len(entry.len).map_err(|e| stage_error(tree, entry, &e))?;
        }
        let recheck = Recheck::new(&found, options, opened.is_growing());
        let progress = SlicesProgress::new(&opened, &found);
        let large = Self {
            opened,
            end: OnceLock::new(),
            in_place,
            shares: shares_blocks(&staged.file),
            is_on_network_fs: tree.is_network_fs(),
            durable: options.durable,
            is_dirty: AtomicBool::new(in_place || !found.slices.is_empty()),
            key,
            staged,
            progress: Mutex::new(progress),
            sealed: RwLock::new(false),
            recheck,
            ended: OnceLock::new(),
            lock_stripes: Default::default(),
        };
        large.end_at(entry).map_err(|e| stage_error(tree, entry, &e))?;
        Ok(large)
    }

    /// Removes a staged file that is not complete and whose journal has no slice.
    pub(crate) fn abandon_useless(&self) {
        if self.in_place || self.ended.get().is_some() {
            return;
        }
        let journal = journal_of(&self.staged.at);
        let found = journal::load(&journal, &self.entry().identity(), &self.staged.file);
        if found.slices.is_empty() {
            let _ = journal.remove();
            remove_if(&self.staged.part, &self.staged.now);
        }
    }

    /// Its entry. That of a stream has the true length as soon as that is known.
    pub(crate) fn entry(&self) -> &Arc<Entry> {
        self.end.get().unwrap_or(&self.opened)
    }

    /// The length of a stream has become known. Slices that an earlier process of this run has stored, and recorded,
    /// count now; they are read back as those of an interrupted run. Whether it was not known before.
    pub(crate) fn end_at(&self, entry: &Arc<Entry>) -> io::Result<bool> {
        if !self.opened.is_growing() || entry.is_growing() {
            return Ok(false);
        }
        let _no_slice_is_written = self.sealed.write();
        if let Some(end) = self.end.get() {
            let is_same = end.len == entry.len;
            return if is_same { Ok(false) } else { Err(io::ErrorKind::InvalidInput.into()) };
        }
        self.staged.at.dir.ops.one();
        self.staged.file.set_len(entry.len)?;
        let mut progress = self.progress.lock();
        progress.tree.end_at(entry.len);
        let (last, mut unread) = (slice_count(entry.len) - 1, Vec::new());
        for (index, value) in std::mem::take(&mut progress.found).range(..last) {
            progress.tree.set(*index, *value);
            unread.push((*index, *value));
        }
        drop(progress);
        self.recheck.begin(unread);
        let _set_once = self.end.set(entry.clone());
        Ok(true)
    }

    /// Whether the staged file has this slice of a stream from an interrupted run, which is read back. Then it counts as
    /// written. The caller holds the lock of the slice.
    pub(crate) fn holds(&self, slice: Slice, value: ChainingValue) -> bool {
        let sealed = self.sealed.read();
        let recorded = {
            let progress = self.progress.lock();
            if *sealed || progress.tree.has(slice.index) {
                return true;
            }
            progress.found.get(&slice.index) == Some(&value)
        };
        let (ops, file) = (&self.staged.at.dir.ops, &self.staged.file);
        let read = || digest::of_slice(ops, file, GROWING, slice.index, &mut vec![0; STEP]).ok();
        if !recorded || read() != Some(value) {
            return false;
        }
        page_cache::release(file, slice.start(), SLICE_LEN);
        self.progress.lock().add(slice.index, value);
        true
    }

    /// Locks a slice for writing.
    pub(crate) fn lock_slice(&self, slice: Slice) -> MutexGuard<'_, ()> {
        self.lock_stripes[slice.index as usize % LOCK_STRIPES].lock()
    }

    /// Puts the old content of the slice in its place if that costs nothing: the file system shares blocks, or the file
    /// is updated in place. Never over a complete slice. The caller holds the lock of the slice.
    pub(crate) fn adopt(&self, slice: Slice, old: &File) -> bool {
        if self.in_place {
            return true;
        }
        let whole = slice.len_in(self.entry().len) == SLICE_LEN;
        if !self.shares || !whole || self.progress.lock().tree.has(slice.index) {
            return false;
        }
        self.supersede(slice);
        self.is_dirty.store(true, Ordering::Relaxed);
        share(&self.staged.at.dir.ops, old, &self.staged.file, slice.index)
    }

    /// Writes one slice, unless the file is sealed: a slice whose connection died is sent again, though it may have
    /// arrived. The caller holds the lock of the slice.
    pub(crate) fn write(&self, slice: Slice, data: &SliceData, content: &[u8], same: Same) -> io::Result<()> {
        let sealed = self.sealed.read();
        if *sealed {
            return Ok(());
        }
        // A complete slice was verified, and its value may be merged into others by now.
        if self.progress.lock().tree.has(slice.index) {
            return Ok(());
        }
        self.supersede(slice);
        let over = Over { is_dirty: self.is_dirty.load(Ordering::Relaxed), same };
        let place = (slice.start(), slice.len_in(self.entry().len));
        if data.extents.last().is_some_and(|e| u64::from(e.start) + u64::from(e.len) > place.1) {
            // A stream has ended before this slice.
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (ops, file) = (&self.staged.at.dir.ops, &self.staged.file);
        let output = OutputFile { ops, file, is_remote: self.is_on_network_fs };
        overwrite(&output, place, data, content, over)?;
        if self.durable && !self.is_on_network_fs {
            output.write_back(place.0, place.1);
        }
        let mut progress = self.progress.lock();
        if let Some(value) = progress.parts.whole(slice, self.entry().len, data.value) {
            progress.add(slice.index, value);
        }
        Ok(())
    }

    /// Begins to write a whole slice of a file of the source while it arrives, in the place of an earlier copy. The number
    /// of this copy; `None` if it has to be verified first: over content that counts, or in the file of the user.
    pub(crate) fn begin_arriving(&self, slice: Slice) -> Option<u64> {
        if self.in_place || self.is_on_network_fs || self.opened.is_stream() || slice.part.is_some() {
            return None;
        }
        let mut progress = self.progress.lock();
        if progress.tree.has(slice.index) || progress.parts.has_some(slice.index) {
            return None;
        }
        progress.copies += 1;
        let copy = progress.copies;
        progress.arriving.insert(slice.index, copy);
        Some(copy)
    }

    /// Writes a piece of a slice that arrives, unless another copy of the slice has come since it began.
    pub(crate) fn write_piece(&self, slice: Slice, copy: u64, piece: &[u8], at: u64) -> io::Result<()> {
        let _locked = self.lock_slice(slice);
        let sealed = self.sealed.read();
        if *sealed || self.progress.lock().arriving.get(&slice.index) != Some(&copy) {
            return Ok(());
        }
        if at + piece.len() as u64 > slice.len_in(self.opened.len) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (ops, file) = (&self.staged.at.dir.ops, &self.staged.file);
        OutputFile { ops, file, is_remote: false }.write(piece, slice.start() + at)
    }

    /// A slice that arrived is verified, and counts. `false` if another copy has come since it began.
    pub(crate) fn end_arriving(&self, slice: Slice, copy: u64, value: ChainingValue) -> bool {
        let _locked = self.lock_slice(slice);
        let mut progress = self.progress.lock();
        if progress.arriving.get(&slice.index) != Some(&copy) {
            return progress.tree.has(slice.index);
        }
        progress.arriving.remove(&slice.index);
        progress.add(slice.index, value);
        drop(progress);
        if self.durable {
            let (ops, file) = (&self.staged.at.dir.ops, &self.staged.file);
            let output = OutputFile { ops, file, is_remote: false };
            output.write_back(slice.start(), slice.len_in(self.opened.len));
        }
        true
    }

    /// A slice did not arrive, or not as it was sent. Its content is in place of a hole.
    pub(crate) fn abandon_arriving(&self, slice: Slice, copy: u64) {
        let mut progress = self.progress.lock();
        if progress.arriving.get(&slice.index) == Some(&copy) {
            self.is_dirty.store(true, Ordering::Relaxed);
            progress.arriving.remove(&slice.index);
        }
    }

    /// From now on, a copy of this slice that is still arriving writes nothing. The caller holds the lock of the slice.
    fn supersede(&self, slice: Slice) {
        if self.progress.lock().arriving.remove(&slice.index).is_some() {
            self.is_dirty.store(true, Ordering::Relaxed);
        }
    }

    /// Takes the slices that are written and not yet synced.
    pub(crate) fn take_dirty(&self) -> Vec<HashedSlice> {
        std::mem::take(&mut self.progress.lock().dirty)
    }

    /// Records slices as durable, after the caller has synced their data. With `sync`, the record is durable too.
    pub(crate) fn record(&self, slices: Vec<HashedSlice>, sync: bool) -> io::Result<()> {
        if self.in_place {
            // An interrupted update in place is resumed by comparing the content.
            return Ok(());
        }
        let mut progress = self.progress.lock();
        progress.durable.extend(slices);
        let added = std::mem::take(&mut progress.durable);
        match &mut progress.journal {
            Some(journal) => journal.append(&added)?,
            none => {
                let header = self.header(sync);
                *none = Some(Journal::create(&journal_of(&self.staged.at), &header, &added)?);
            }
        }
        match &progress.journal {
            Some(journal) if sync => journal.sync(),
            _ => Ok(()),
        }
    }

    fn header(&self, synced: bool) -> JournalHeader {
        let (identity, staged_ino) = (self.opened.identity(), self.staged.now.stx_ino);
        JournalHeader { identity, staged_ino, boot: mark::boot(), key: self.key, synced }
    }

    /// Seals the file once all slices are written and verified, and gives its digest.
    pub(crate) fn seal(&self) -> Option<Digest> {
        let mut sealed = self.sealed.write();
        let progress = self.progress.lock();
        if progress.tree.missing() > 0 || !self.recheck.is_passed() {
            return None;
        }
        *sealed = true;
        progress.tree.digest()
    }

    /// Discards content that may be lost. A staged file is removed with its journal: cached pages may differ from the
    /// disk even after they were written again. A file that is updated in place is read from the disk from now on.
    pub(crate) fn discard(&self) {
        if self.in_place {
            let _ = sync_and_drop(&self.staged.at.dir.ops, &self.staged.file);
            return;
        }
        let _ = journal_of(&self.staged.at).remove();
        remove_if(&self.staged.part, &self.staged.now);
    }

    /// Whether the file is complete, and only waits until the content of an interrupted run is read back.
    pub(crate) fn waits_for_recheck(&self) -> bool {
        self.recheck.is_awaited() && self.progress.lock().tree.missing() == 0
    }

    /// Adds slices that were read back without a difference to the next record.
    pub(crate) fn confirm(&self, slices: &[HashedSlice]) {
        self.progress.lock().durable.extend_from_slice(slices);
    }

    /// Removes slices that differ from the record out of the journal. They are sent again.
    pub(crate) fn disown(&self, wrong: &[u32]) {
        let at = journal_of(&self.staged.at);
        let mut progress = self.progress.lock();
        let found = journal::load(&at, &self.opened.identity(), &self.staged.file);
        let mut left = found.slices;
        left.append(&mut progress.durable);
        left.retain(|(index, _)| !wrong.contains(index));
        progress.journal = Journal::create(&at, &self.header(found.synced), &left).ok();
    }

    /// The outcome of the file, once it is known.
    pub(crate) fn ended(&self) -> Option<&Result<Digest>> {
        self.ended.get()
    }

    /// Sets the outcome of the file.
    pub(crate) fn end(&self, end: Result<Digest>) {
        // The first outcome counts.
        let _ = self.ended.set(end);
    }
}
