//! Large files: made slice by slice, staged or where they are.

use haul_core::sync::{Mutex, MutexGuard, RwLock};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use haul_core::digest::{PART_LEN, merge, part_count};
use haul_core::journal::Header;
use haul_core::{
    ChainingValue, Digest, Entry, Error, FileTree, Ops, Result, SLICE_LEN, SinkOptions, Slice, SliceData,
};
use rustix::fs::Advice;

use super::delta;
use super::journal::{self, Found, Journal};
use super::mark;
use super::recheck::Recheck;
use super::root::Root;
use super::stage::{Over, Same, Staged, journal_of, overwrite, remove, remove_if};

/// Slices of one file that are written at the same time, at most.
const DOORS: usize = 16;
/// Parts of a slice.
const PARTS: usize = (SLICE_LEN / PART_LEN) as usize;

/// A large file that is being staged, slice by slice.
pub(super) struct LargeFile {
    /// What it is to become.
    pub(super) entry: Arc<Entry>,
    /// The staged file.
    pub(super) staged: Staged,
    progress: Mutex<Progress>,
    /// Set once all slices are there: then nothing is written any more, as it would change the time that was set.
    sealed: RwLock<bool>,
    /// What an interrupted run has left in it, and whether that is still so.
    pub(super) recheck: Recheck,
    /// What became of it in the end.
    ended: OnceLock<Result<Digest>>,
    /// What ties its journal to it.
    key: [u8; 16],
    /// It has its final name already.
    pub(super) in_place: bool,
    /// Its file system shares blocks.
    shares: bool,
    /// There may be something else than holes where nothing was written yet.
    is_dirty: AtomicBool,
    /// A slice that was sent twice is written by one after the other.
    doors: [Mutex<()>; DOORS],
}

struct Progress {
    tree: FileTree,
    /// Slices of which some parts are written. They count once they are whole.
    parts: HashMap<u32, [Option<ChainingValue>; PARTS]>,
    /// Written, not yet synced.
    dirty: Vec<(u32, ChainingValue)>,
    /// Synced; kept until there is a journal.
    durable: Vec<(u32, ChainingValue)>,
    journal: Option<Journal>,
}

impl Progress {
    /// The proof of a slice of which this one, or this part, was written; `None` while parts of it are missing.
    fn whole(&mut self, slice: Slice, len: u64, value: ChainingValue) -> Option<ChainingValue> {
        let Some(part) = slice.part else { return Some(value) };
        let parts = self.parts.entry(slice.index).or_default();
        *parts.get_mut(usize::from(part))? = Some(value);
        let there: Vec<_> = parts.iter().map_while(|part| *part).collect();
        if there.len() < usize::from(part_count(len, slice.index)) {
            return None;
        }
        self.parts.remove(&slice.index);
        merge(&there)
    }
}

/// Syncs a file that was written to before and drops its pages, so that it is read from the disk. An error is one that
/// nobody has heard of yet.
pub(super) fn settle(ops: &Ops, file: &File) -> io::Result<()> {
    ops.one();
    let synced = file.sync_data();
    // Advice; what stays in memory is what was synced.
    let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
    synced
}

/// Lets a file that is changed in place be compared as it is on the disk. Its pages in memory are that, unless some of
/// them could not be written.
pub(super) fn settle_in_place(ops: &Ops, file: &File) {
    ops.one();
    if file.sync_data().is_err() {
        // What differs is written again, and synced then.
        let _ = settle(ops, file);
    }
}

impl LargeFile {
    /// Opens the file that is there, if it is to be changed in place; else makes or takes over the staged file of
    /// `entry`, with the slices that its journal proves.
    pub(super) fn open(root: &Root, entry: &Arc<Entry>, options: &SinkOptions) -> Result<Self> {
        let in_place = options.in_place;
        let there = if in_place { Staged::in_place(root, &entry.path)? } else { None };
        let in_place = there.is_some();
        let mut staged = there.map_or_else(|| Staged::open(root, &entry.path), Ok)?;
        let failed = |e: &io::Error| Error::io(root.side(), "stage", e).on(root.shown(&entry.path));
        let mut tree = FileTree::new(entry.len);
        let mut found = Found::default();
        if staged.found && !in_place {
            found = journal::load(&journal_of(&staged.at), &entry.identity(), &staged.file);
            if !found.slices.is_empty() && settle(&root.ops, &staged.file).is_err() {
                found = Found::default();
            }
        }
        let mut key = [0; 16];
        if in_place {
            settle_in_place(&root.ops, &staged.file);
        } else if found.slices.is_empty() {
            // A journal without its file must go before there is a file: inode numbers are used again.
            remove(&journal_of(&staged.at)).map_err(|errno| root.error("stage", &entry.path, errno))?;
            if staged.found {
                // Not the same file once more: pages of it that were not written to the disk would go on looking clean.
                remove_if(&staged.part, &staged.now);
                drop(staged);
                staged = Staged::open(root, &entry.path)?;
            }
            root.ops.some(2);
            staged.file.set_len(0).map_err(|e| failed(&e))?;
            key = mark::give_key(&staged.file);
        } else {
            key = mark::key_of(&staged.file);
        }
        staged.keyed = key != [0; 16];
        for (index, value) in &found.slices {
            tree.set(*index, *value);
        }
        root.ops.one();
        staged.file.set_len(entry.len).map_err(|e| failed(&e))?;
        let recheck = Recheck::new(&found, options);
        // What was not synced is recorded anew once it was read back.
        let durable = if found.synced { found.slices.clone() } else { Vec::new() };
        Ok(Self {
            entry: entry.clone(),
            in_place,
            shares: delta::shares_blocks(&staged.file),
            is_dirty: AtomicBool::new(in_place || !found.slices.is_empty()),
            key,
            staged,
            progress: Mutex::new(Progress {
                tree,
                parts: HashMap::new(),
                dirty: Vec::new(),
                durable,
                journal: None,
            }),
            sealed: RwLock::new(false),
            recheck,
            ended: OnceLock::new(),
            doors: Default::default(),
        })
    }

    fn lock(&self) -> haul_core::sync::MutexGuard<'_, Progress> {
        self.progress.lock()
    }

    /// Held by who writes a slice.
    pub(super) fn door(&self, slice: Slice) -> MutexGuard<'_, ()> {
        self.doors[slice.index as usize % DOORS].lock()
    }

    /// Has the slice put in its place as it is in the old file, if that costs nothing: where the file system shares
    /// blocks, and where the file is changed in place. Not over what counts already. To be called behind its door.
    pub(super) fn adopt(&self, slice: Slice, old: &File) -> bool {
        if self.in_place {
            return true;
        }
        let whole = slice.len_in(self.entry.len) == SLICE_LEN;
        if !self.shares || !whole || self.lock().tree.has(slice.index) {
            return false;
        }
        self.is_dirty.store(true, Ordering::Relaxed);
        delta::share(&self.staged.at.dir.ops, old, &self.staged.file, slice.index)
    }

    /// Writes one slice, unless all are there: a slice whose stream died is sent again, though it may have arrived.
    /// To be called behind its door.
    pub(super) fn write(&self, slice: Slice, data: &SliceData, content: &[u8], same: Same) -> io::Result<()> {
        let sealed = self.sealed.read();
        if *sealed {
            return Ok(());
        }
        // What is known was written and proved, and its value may be part of the tree's by now.
        if self.lock().tree.has(slice.index) {
            return Ok(());
        }
        let over = Over { is_dirty: self.is_dirty.load(Ordering::Relaxed), same };
        let place = (slice.start(), slice.len_in(self.entry.len));
        overwrite(&self.staged.at.dir.ops, &self.staged.file, place, data, content, over)?;
        let mut progress = self.lock();
        if let Some(value) = progress.whole(slice, self.entry.len, data.value) {
            progress.tree.set(slice.index, value);
            progress.dirty.push((slice.index, value));
        }
        Ok(())
    }

    /// The slices that are written and not yet durable; they are the caller's now.
    pub(super) fn take_dirty(&self) -> Vec<(u32, ChainingValue)> {
        std::mem::take(&mut self.lock().dirty)
    }

    /// Records slices as durable. The caller has synced the data of them, and asks for `sync` of the record too.
    pub(super) fn record(&self, slices: Vec<(u32, ChainingValue)>, sync: bool) -> io::Result<()> {
        if self.in_place {
            // What is there says by itself what it is.
            return Ok(());
        }
        let mut progress = self.lock();
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

    fn header(&self, synced: bool) -> Header {
        let (identity, staged_ino) = (self.entry.identity(), self.staged.now.stx_ino);
        Header { identity, staged_ino, boot: mark::boot(), key: self.key, synced }
    }

    /// The file's own digest, once all slices are written; nothing is written after that.
    pub(super) fn seal(&self) -> Option<Digest> {
        let mut sealed = self.sealed.write();
        let progress = self.lock();
        if progress.tree.missing() > 0 || !self.recheck.is_passed() {
            return None;
        }
        *sealed = true;
        progress.tree.digest()
    }

    /// What was written of it may be lost. A staged file goes, and its journal: pages in memory may differ from the disk
    /// even after they were written once more. A file that is changed in place is read from the disk from now on.
    pub(super) fn give_up(&self) {
        if self.in_place {
            let _ = settle(&self.staged.at.dir.ops, &self.staged.file);
            return;
        }
        let _ = remove(&journal_of(&self.staged.at));
        remove_if(&self.staged.part, &self.staged.now);
    }

    /// Whether all that it waits for is that what an interrupted run has left is read back.
    pub(super) fn waits_for_recheck(&self) -> bool {
        self.recheck.is_awaited() && self.lock().tree.missing() == 0
    }

    /// These slices were read back and are as they were recorded: from now on they are in the journal.
    pub(super) fn confirm(&self, slices: &[(u32, ChainingValue)]) {
        self.lock().durable.extend_from_slice(slices);
    }

    /// These slices are not what the journal says, and are to be sent again: it says so no more.
    pub(super) fn disown(&self, wrong: &[u32]) {
        let at = journal_of(&self.staged.at);
        let mut progress = self.lock();
        let found = journal::load(&at, &self.entry.identity(), &self.staged.file);
        let mut left = found.slices;
        left.append(&mut progress.durable);
        left.retain(|(index, _)| !wrong.contains(index));
        progress.journal = Journal::create(&at, &self.header(found.synced), &left).ok();
    }

    /// What became of it, once it has been committed or could not be.
    pub(super) fn ended(&self) -> Option<&Result<Digest>> {
        self.ended.get()
    }

    /// Settles what becomes of it.
    pub(super) fn end(&self, end: Result<Digest>) {
        // The first word counts.
        let _ = self.ended.set(end);
    }
}
