//! The writing end.

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use haul_core::{
    Answer, BatchData, BufferPool, Delta, Digest, Entry, Error, ErrorKind, FinishReport, HardLink,
    HungOperation, Offer, Outcome, PageHashes, RelPath, Result, SLICE_LEN, Side, Sink, SinkOptions, Slice,
    SliceData, WriteDone,
};
use rustix::fs::Statx;
use rustix::io::Errno;

use super::ahead::Ahead;
use super::claims::Claims;
use super::commit::{Committer, Item, Ticket, What};
use super::delta::Bases;
use super::large::LargeFile;
use super::meta::{Expected, Metadata, On};
use super::root::{At, Root};
use super::sync::{Disk, Kernel};
use super::unsynced::Unsynced;
use super::{clone, digest, direct, offer, recheck, stage, stat};
use haul_ends::dirs::Dirs;
use haul_ends::thread_pool::ThreadPool;

/// Threads that compare, at most, on this machine's disks.
const COMPARERS: usize = 4;
/// Threads that begin to compare or to write on a network file system.
const FEW: usize = 8;
/// Threads that there may be.
const MANY: usize = 256;
/// Entries that one thread compares at a time there.
const REMOTE_RUN: usize = 8;
/// Batches that are written at once there: while the last files of one are waited for, others go on.
const REMOTE_WRITERS: u32 = 6;

/// A tree of the local file system, to be written.
pub(super) struct LocalSink {
    options: SinkOptions,
    pool: BufferPool,
    dirs: Dirs,
    committer: Arc<Committer>,
    /// Those who compare.
    threads: ThreadPool,
    ahead: Ahead,
    /// Whether small files are made under their own names.
    direct: bool,
    /// Whose files of several names are.
    claims: Claims,
    /// Files that are there, while something is staged of them that was held when they were looked at.
    unclean: Mutex<Vec<Arc<Entry>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl LocalSink {
    pub(super) fn new(root: Root, options: SinkOptions, pool: BufferPool) -> Result<Self> {
        Self::on(Box::new(Kernel::default()), Unsynced::of_this_user(), root, options, pool)
    }

    /// One whose files `disk` makes durable.
    pub(super) fn on(
        disk: Box<dyn Disk>,
        unsynced: Unsynced,
        root: Root,
        options: SinkOptions,
        pool: BufferPool,
    ) -> Result<Self> {
        let metadata = Metadata::new(&options, Arc::clone(&root.ops));
        let (writers, threads) = if root.is_network_fs() {
            (ThreadPool::growing(FEW, MANY), ThreadPool::growing(FEW, MANY))
        } else {
            (ThreadPool::fixed(1), ThreadPool::fixed(COMPARERS))
        };
        let direct = direct::is_for(&root, &options);
        let committer = Arc::new(Committer::new(root, metadata, writers, &options, disk, unsynced));
        let thread = {
            let committer = committer.clone();
            std::thread::Builder::new().name("commit".into()).spawn(move || committer.run())
        };
        let thread = thread.map_err(|e| Error::io(Side::Local, "start a thread", &e))?;
        let unclean = Mutex::default();
        Ok(Self {
            options,
            pool,
            dirs: Dirs::default(),
            committer,
            threads,
            ahead: Ahead::default(),
            direct,
            claims: Claims::default(),
            unclean,
            thread: Mutex::new(Some(thread)),
        })
    }

    pub(super) fn options(&self) -> &SinkOptions {
        &self.options
    }

    pub(super) fn root(&self) -> &Root {
        &self.committer.root
    }

    pub(super) fn metadata(&self) -> &Metadata {
        &self.committer.metadata
    }

    pub(super) fn dirs(&self) -> &Dirs {
        &self.dirs
    }

    /// Whether a small file may lack content that its size and time promise: see [`super::unsynced`].
    pub(super) fn is_suspect(&self, file: &Statx) -> bool {
        !self.root().is_network_fs() && self.committer.unsynced.is_suspect(file)
    }

    pub(super) fn claims(&self) -> &Claims {
        &self.claims
    }

    pub(super) fn bases(&self) -> &Bases {
        &self.committer.bases
    }

    pub(super) fn pool(&self) -> &BufferPool {
        &self.pool
    }

    /// Hands over what was written.
    pub(super) fn push(&self, item: Item) {
        self.committer.push(item);
    }

    /// Takes one slice: proves it, writes it.
    fn take(
        &self,
        entry: &Arc<Entry>,
        slice: Slice,
        data: &SliceData,
        content: &[u8],
        how: How,
    ) -> Result<Taken> {
        offer::check(self, entry)?;
        if !how.at_hand && !data.proves(entry, slice, content) {
            let cause = format!("slice {} did not arrive as it was sent", slice.index);
            return Err(self.root().fault(ErrorKind::Corrupt, "verify", &entry.path, &cause));
        }
        if entry.len <= SLICE_LEN {
            // The proof of a file of one slice is its digest.
            let digest = Digest(data.value.0);
            let made = if self.direct { direct::make(self.root(), entry, data, content)? } else { None };
            let is_there = |at: &At| how.again && self.is_there(at, entry, digest);
            let staged = match made {
                Some(made) => Some(made),
                None => stage::stage_small(self.root(), entry, data, content, &is_there)?,
            };
            let Some(staged) = staged else { return Ok(Taken::Already(digest)) };
            let on = if staged.direct { On::New(&staged) } else { On::File(&staged) };
            if let Err(errno) = self.metadata().set(&on, entry) {
                staged.abandon();
                return Err(self.root().error("set the metadata of", &entry.path, errno));
            }
            return Ok(Taken::Wait(What::Small(Box::new(staged), entry.clone(), digest)));
        }
        let large = match self.large(entry)? {
            Ok(large) => large,
            Err(digest) => return Ok(Taken::Already(digest)),
        };
        if self.options.delta != Delta::Never {
            self.bases().came(entry, data);
        }
        let door = large.door(slice);
        large
            .write(slice, data, content, stage::Same::Missing)
            .map_err(|e| Error::io(Side::Destination, "write", &e).on(self.root().shown(&entry.path)))?;
        drop(door);
        Ok(Taken::Wait(What::Slice(large)))
    }

    /// Whether a small file is there, with this content and all that is known of it.
    fn is_there(&self, at: &At, entry: &Entry, digest: Digest) -> bool {
        stat::statx(at).is_ok_and(|now| {
            now.stx_size == entry.len
                && self.metadata().times.is_same(entry.mtime, at, &now)
                && self.metadata().is_same(self.root(), at, &now, entry).unwrap_or(false)
        }) && digest::of_path(self.root(), &entry.path).is_ok_and(|found| found == digest)
    }

    /// The staged file of a large file, or the digest that it was committed with a moment ago.
    pub(super) fn large(&self, entry: &Arc<Entry>) -> Result<Result<Arc<LargeFile>, Digest>> {
        let slot = {
            let mut large_files = self.committer.large_files.lock();
            let mut committed = self.committer.committed.lock();
            match committed.get(&entry.path) {
                Some((identity, digest))
                    if identity == entry.identity() && !large_files.contains_key(&entry.path) =>
                {
                    return Ok(Err(digest));
                }
                _ => large_files.entry(entry.path.clone()).or_default().clone(),
            }
        };
        let mut held = slot.lock();
        if let Some(large) = &*held
            && large.entry.identity() == entry.identity()
        {
            return Ok(Ok(large.clone()));
        }
        // Another state of the source: what is staged of the old one goes, and its lock with it.
        if let Some(old) = held.take() {
            recheck::cancel(&self.committer, &old);
        }
        let options = SinkOptions { in_place: self.keeps_place(entry), ..self.options.clone() };
        let large = Arc::new(LargeFile::open(self.root(), entry, &options)?);
        *held = Some(large.clone());
        drop(held);
        recheck::begin(&self.committer, &large);
        Ok(Ok(large))
    }

    fn keeps_place(&self, entry: &Entry) -> bool {
        let now = || self.root().at(&entry.path).and_then(|at| stat::statx(&at));
        self.options.in_place && now().is_ok_and(|now| self.writes_into(entry, &now))
    }

    /// Whether the entry's content is written into the file that is there, whose plain metadata is `now`.
    pub(super) fn writes_into(&self, entry: &Entry, now: &Statx) -> bool {
        self.options.in_place && stat::is_file(now) && self.claims.may_write_into(now, entry)
    }

    /// Closes the staged file of a large file that is not under way any more. Whether there was one.
    pub(super) fn let_go(&self, path: &RelPath) -> bool {
        let slot = self.committer.large_files.lock().remove(path);
        let large = slot.as_ref().and_then(|slot| slot.lock().take());
        if let Some(large) = large {
            recheck::cancel(&self.committer, &large);
        }
        slot.is_some()
    }
}

/// How content came.
#[derive(Clone, Copy)]
struct How {
    /// It was read by this process, and needs no proof.
    at_hand: bool,
    /// It may have come before.
    again: bool,
}

/// What became of a slice that was taken.
pub(super) enum Taken {
    /// It waits to be durable.
    Wait(What),
    /// Its file was committed before.
    Already(Digest),
}

impl Sink for LocalSink {
    fn offer(&self, offers: &[Offer]) -> Result<Vec<Result<Answer>>> {
        // Few entries are not worth a thread; many are compared side by side, in runs that share folders.
        let len = if self.root().is_network_fs() {
            REMOTE_RUN
        } else if offers.len() < 256 {
            offers.len().max(1)
        } else {
            offers.len().div_ceil(COMPARERS * 4)
        };
        let make = !self.options.dry_run && !self.options.existing;
        self.ahead.look(self.root(), &self.threads, offers.iter().map(|offer| &offer.entry.path), make);
        let runs: Vec<&[Offer]> = offers.chunks(len).collect();
        let answer = |run: &&[Offer]| run.iter().map(|one| offer::answer(self, one)).collect::<Vec<_>>();
        Ok(self.threads.each(&runs, answer).into_iter().flatten().collect())
    }

    fn write(&self, data: BatchData, done: WriteDone) {
        if Self::has_same(&data) {
            return self.write_changed(data, done);
        }
        let ticket = Ticket::new(data.slices.len(), done);
        let how = How { at_hand: data.at_hand, again: data.batch.again };
        let mut used = 0;
        let mut jobs = Vec::with_capacity(data.slices.len());
        for (at, ((entry, slice), read)) in data.batch.iter().zip(&data.slices).enumerate() {
            match read {
                Err(error) => ticket.settle(at, Err(error.clone())),
                Ok(read) => {
                    let len = read.data_len() as usize;
                    let content = data.content.bytes().get(used..used + len).unwrap_or_default();
                    used += len;
                    jobs.push((at, entry, slice, read, content));
                }
            }
        }
        let threads = &self.committer.threads;
        if !threads.is_single() {
            // Names in one folder are made one after the other by the kernel, and by most servers: so those who work
            // side by side are in different ones, and what is left of the largest folder comes last.
            let mut before: HashMap<Option<RelPath>, u32> = HashMap::new();
            jobs.sort_by_cached_key(|(_, entry, ..)| {
                let count = before.entry(entry.path.parent()).or_default();
                *count += 1;
                *count
            });
        }
        threads.each(&jobs, |(at, entry, slice, read, content)| {
            let _doing = self.root().doing("write", &entry.path);
            match self.take(entry, *slice, read, content, how) {
                // Each for itself: a server may be stuck at another one of the batch.
                Ok(Taken::Wait(what)) => {
                    let bytes = content.len() as u64;
                    self.push(Item { ticket: ticket.clone(), at: *at, bytes, what });
                }
                Ok(Taken::Already(digest)) => ticket.settle(*at, Ok(Outcome::Committed(Some(digest)))),
                Err(error) => ticket.settle(*at, Err(error)),
            }
        });
    }

    fn pages(&self, entry: &Arc<Entry>, slices: Range<u32>) -> Result<Vec<PageHashes>> {
        let base = self.bases().of(self.root(), &self.options, entry);
        Ok(base.map_or_else(Vec::new, |base| base.pages(slices)))
    }

    fn has_parts(&self) -> bool {
        true
    }

    fn flush(&self) {
        self.committer.flush();
    }

    fn hung(&self, patience: Duration) -> Vec<HungOperation> {
        self.root().hung(patience)
    }

    fn discard(&self, paths: &[RelPath]) -> Result<()> {
        for path in paths {
            if self.let_go(path)
                && let Ok(at) = self.root().at(path)
            {
                let _ = stage::remove(&stage::part_of(&at));
                let _ = stage::remove(&stage::journal_of(&at));
            }
        }
        Ok(())
    }

    fn link(&self, links: &[HardLink]) -> Result<Vec<Result<Answer>>> {
        // Names of one file are made one after the other anyway.
        Ok(self.committer.threads.each(links, |one| offer::link(self, one)))
    }

    fn remove(&self, paths: &[RelPath]) -> Result<Vec<Result<()>>> {
        if self.root().is_network_fs() && !self.options.dry_run {
            // What is no folder goes first, side by side; folders then find themselves empty.
            let gone = self.committer.threads.each(paths, |path| self.unlink(path));
            let rest = paths.iter().zip(gone);
            return Ok(rest.map(|(path, gone)| if gone { Ok(()) } else { self.remove_one(path) }).collect());
        }
        Ok(paths.iter().map(|path| self.remove_one(path)).collect())
    }

    fn finish(&self) -> Result<FinishReport> {
        self.committer.drain();
        if !self.options.dry_run {
            self.clean();
            let failed = Mutex::new(None);
            let set = |entries: &[Entry]| {
                if let Err(error) = self.set_dirs(entries) {
                    failed.lock().get_or_insert(error);
                }
                Ok(())
            };
            self.dirs.finish(&set)?;
            self.root().lock_again();
            if let Some(error) = failed.into_inner() {
                return Err(error);
            }
            if self.options.durable {
                self.sync_all()?;
            }
            let is_synced = |device| self.options.durable && self.root().devices.has(device);
            self.committer.unsynced.finish(is_synced);
        }
        Ok(FinishReport { notes: self.metadata().notes() })
    }

    fn writers(&self) -> u32 {
        if self.root().is_network_fs() { REMOTE_WRITERS } else { 0 }
    }

    fn clone_file(&self, entry: &Entry, file: &File) -> Result<Option<Outcome>> {
        clone::clone_file(self.root(), self.metadata(), entry, file, self.options.durable)
    }
}

impl LocalSink {
    /// What is staged of a file that is there is to be removed at the end.
    pub(super) fn clean_later(&self, entry: &Entry) {
        let mut unclean = self.unclean.lock();
        unclean.push(Arc::new(entry.clone()));
    }

    /// Removes what is staged of files that are there. A slice that was sent again may have come after its file was
    /// finished, by this process or by one that had its place before.
    fn clean(&self) {
        let slots = std::mem::take(&mut *self.committer.large_files.lock());
        let mut entries = std::mem::take(&mut *self.unclean.lock());
        for slot in slots.into_values() {
            let large = slot.lock().take();
            entries.extend(large.map(|large| large.entry.clone()));
        }
        for entry in entries {
            let at = self.root().at(&entry.path);
            let there = |at: &At| {
                stat::statx(at).is_ok_and(|now| {
                    now.stx_size == entry.len && self.metadata().times.is_same(entry.mtime, at, &now)
                })
            };
            if let Some(at) = at.ok().filter(there) {
                stage::clean(&at);
            }
        }
    }

    /// Sets the metadata of folders at the end, in their order if one of them locks its owner out.
    fn set_dirs(&self, entries: &[Entry]) -> Result<()> {
        // One that was replaced says nothing about the others: they are set before it is told.
        if entries.iter().any(|entry| entry.mode & 0o700 != 0o700) {
            let set: Vec<Result<()>> = entries.iter().map(|entry| self.set_dir(entry)).collect();
            return set.into_iter().collect();
        }
        self.committer.threads.each(entries, |entry| self.set_dir(entry)).into_iter().collect()
    }

    /// Sets the metadata of a folder at the end.
    fn set_dir(&self, entry: &Entry) -> Result<()> {
        // These are of the folder here that was made or compared.
        let expected = Expected::Inode(entry.dev, entry.ino);
        let at = self.root().at(&entry.path);
        match at.and_then(|at| self.metadata().set(&On::Name(&at, expected), entry)) {
            Ok(_) => {
                self.root().is_settled(&entry.path);
                Ok(())
            }
            // Gone since: nothing was written into it, or somebody removed it.
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.root().error("set the metadata of the folder", &entry.path, errno)),
        }
    }

    /// Makes the names and folders durable too, on every file system below the root.
    fn sync_all(&self) -> Result<()> {
        let root = RelPath::root();
        let failed = |e: std::io::Error| {
            let error = Error::io(self.root().side(), "sync", &e).on(self.root().shown(&root));
            error.with_hint("data of another program may be meant, or folders; run the same command again")
        };
        let devices = &self.root().devices;
        let syncer = &self.committer.syncer;
        devices.each(|handle, device| syncer.names(handle, device)).map_err(failed)?;
        let Ok(at) = self.root().at(&root) else { return Ok(()) };
        let folder = At { dir: at.dir.clone(), name: b".".to_vec() };
        let device = |now: rustix::fs::Statx| (now.stx_dev_major, now.stx_dev_minor);
        let device = stat::statx(&at).or_else(|_| stat::statx(&folder)).map(device);
        if device.is_ok_and(|device| devices.has(device)) {
            return Ok(());
        }
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        let opened = at.open(flags, rustix::fs::Mode::empty());
        let opened = opened.or_else(|_| folder.open(flags, rustix::fs::Mode::empty()));
        let opened = File::from(opened.map_err(|errno| failed(errno.into()))?);
        syncer.names(&opened, device.unwrap_or_default()).map_err(failed)
    }
}

impl Drop for LocalSink {
    fn drop(&mut self) {
        self.committer.rechecks.stop();
        self.committer.close();
        if let Some(thread) = self.thread.lock().take() {
            // A panic there has been printed; here is nobody to tell.
            let _ = thread.join();
        }
        // Of a run that did not come to its end.
        self.root().lock_again();
    }
}

#[cfg(test)]
#[path = "sink_tests.rs"]
mod tests;
