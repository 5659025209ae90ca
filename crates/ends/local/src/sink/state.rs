//! The state of the writing end.

use haul_core::sync::thread::{self, JoinHandle};
use haul_core::sync::{Mutex, RwLock};
use std::sync::Arc;

use haul_core::{BufferPool, ClearedPaths, Digest, Entry, Error, RelPath, Result, Side, SinkOptions};
use rustix::fs::Statx;

use super::claims::Claims;
use super::unwritable::Writability;
use crate::commit::committer::Committer;
use crate::commit::sync::{Disk, Kernel};
use crate::commit::unsynced::Unsynced;
use crate::meta::metadata::MetadataSetter;
use crate::network_fs::dir_prefetch::DirPrefetch;
use crate::network_fs::direct;
use crate::path::at::At;
use crate::path::root::Root;
use crate::path::stat;
use crate::stage::large::LargeFile;
use crate::tree::local_tree::LocalTree;
use haul_ends::dirs::Dirs;
use haul_ends::thread_pool::ThreadPool;

/// The most threads that compare on local disks.
pub(super) const COMPARERS: usize = 4;
/// Threads that compare or write at first on a network file system.
const FIRST_THREADS: usize = 8;
/// The most threads on a network file system.
const MAX_THREADS: usize = 256;

/// A tree of the local file system that is written to.
pub(crate) struct LocalSink {
    pub(super) options: SinkOptions,
    pub(super) pool: BufferPool,
    pub(super) dirs: Dirs,
    pub(super) committer: Arc<Committer>,
    /// The threads that compare.
    pub(super) threads: ThreadPool,
    pub(super) prefetch: DirPrefetch,
    /// Small files are made under their final names.
    pub(super) direct: bool,
    pub(super) references: EarlierCopies,
    /// The entries that files with several names belong to.
    pub(super) claims: Claims,
    pub(super) cleared: ClearedPaths,
    /// Why the destination takes no entry; examined when the first one is needed.
    pub(super) writability: Writability,
    /// Complete files that may have staged files, which another process had locked or left.
    pub(super) unclean: Mutex<Vec<Arc<Entry>>>,
    /// The run has ended. A write holds the lock, so that the end waits for it.
    pub(super) finished: RwLock<bool>,
    pub(super) thread: Mutex<Option<JoinHandle<()>>>,
}

/// The roots of earlier copies ([`haul_core::References`]), and how they are compared.
#[derive(Default)]
pub(crate) struct EarlierCopies {
    pub(super) roots: Vec<Root>,
    pub(super) options: SinkOptions,
}

impl EarlierCopies {
    pub(super) fn new(roots: Vec<Root>, options: &SinkOptions) -> Self {
        // Whether an entry at the destination may be replaced is decided before a reference is asked.
        let options =
            SinkOptions { ignore_existing: false, existing: false, update: false, ..options.clone() };
        Self { roots, options }
    }
}

impl LocalSink {
    pub(crate) fn new(root: Root, options: SinkOptions, pool: BufferPool) -> Result<Self> {
        let tree = LocalTree::new(root);
        Self::on(Box::new(Kernel::default()), Unsynced::of_this_user(), tree, options, pool)
    }

    /// A sink whose files are made durable by `disk`.
    pub(crate) fn on(
        disk: Box<dyn Disk>,
        unsynced: Unsynced,
        tree: LocalTree,
        options: SinkOptions,
        pool: BufferPool,
    ) -> Result<Self> {
        let metadata = MetadataSetter::new(&options, Arc::clone(&tree.root.ops));
        let (writers, threads) = if tree.is_network_fs() {
            (ThreadPool::growing(FIRST_THREADS, MAX_THREADS), ThreadPool::growing(FIRST_THREADS, MAX_THREADS))
        } else {
            (ThreadPool::fixed(1), ThreadPool::fixed(COMPARERS))
        };
        let direct = direct::is_allowed(&tree, &options);
        let committer = Arc::new(Committer::new(tree, metadata, writers, &options, disk, unsynced));
        let thread = {
            let committer = committer.clone();
            thread::Builder::new().name("commit".into()).spawn(move || committer.run())
        };
        let thread = thread.map_err(|e| Error::io(Side::Local, "start a thread", &e))?;
        Ok(Self {
            options,
            pool,
            dirs: Dirs::default(),
            committer,
            threads,
            prefetch: DirPrefetch::default(),
            direct,
            references: EarlierCopies::default(),
            claims: Claims::default(),
            cleared: ClearedPaths::default(),
            writability: Writability::default(),
            unclean: Mutex::default(),
            finished: RwLock::new(false),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// The same sink with these earlier copies: it does not copy entries that they have.
    pub(super) fn with_earlier(mut self, references: EarlierCopies) -> Self {
        self.references = references;
        self
    }

    pub(super) fn tree(&self) -> &LocalTree {
        &self.committer.tree
    }

    pub(super) fn root(&self) -> &Root {
        &self.committer.tree.root
    }

    pub(super) fn metadata(&self) -> &MetadataSetter {
        &self.committer.metadata
    }

    /// Whether a small file of the right size and time may lack content: see [`crate::commit::unsynced`].
    pub(super) fn is_suspect(&self, file: &Statx) -> bool {
        !self.tree().is_network_fs() && self.committer.unsynced.is_suspect(file)
    }

    /// Whether the file at `at` has the size and time of the entry.
    pub(super) fn has_size_and_time(&self, at: &At, now: &Statx, entry: &Entry) -> bool {
        now.stx_size == entry.len && self.metadata().times.is_same(entry.mtime, at, now)
    }

    /// Whether this run has renamed the large file into place.
    pub(super) fn was_committed(&self, entry: &Entry) -> bool {
        let mut committed = self.committer.committed.lock();
        committed.get(&entry.path).is_some_and(|(identity, _)| identity == entry.identity())
    }

    /// Refuses entries that no file system could have: a remote end may send anything.
    ///
    /// # Errors
    /// `Unsupported`.
    pub(super) fn check(&self, entry: &Entry) -> Result<()> {
        let refused = |why| self.root().fault(haul_core::ErrorKind::Unsupported, "make", &entry.path, why);
        entry.check_growing().map_err(refused)
    }

    /// The open large file of an entry, or the digest with which it was committed before.
    pub(super) fn large(&self, entry: &Arc<Entry>) -> Result<Result<Arc<LargeFile>, Digest>> {
        self.committer.check_current(entry)?;
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
            && large.entry().identity() == entry.identity()
        {
            let has_ended = large.end_at(entry).map_err(|e| self.write_error(large, &e))?;
            let large = large.clone();
            drop(held);
            if has_ended {
                self.committer.rechecks.begin(&large);
            }
            return Ok(Ok(large));
        }
        // The source has changed: the staged file of the old state is closed and unlocked.
        if let Some(old) = held.take() {
            self.committer.rechecks.cancel(&old);
        }
        let options = SinkOptions { in_place: self.is_updated_in_place(entry), ..self.options.clone() };
        let large = Arc::new(LargeFile::open(self.tree(), entry, &options)?);
        *held = Some(large.clone());
        drop(held);
        self.committer.rechecks.begin(&large);
        Ok(Ok(large))
    }

    fn is_updated_in_place(&self, entry: &Entry) -> bool {
        let now = || self.root().at(&entry.path).and_then(|at| stat::statx(&at));
        self.options.in_place && now().is_ok_and(|now| self.writes_into(entry, &now))
    }

    /// Whether the content of the entry is written into the existing file, whose plain metadata is `now`.
    pub(super) fn writes_into(&self, entry: &Entry, now: &Statx) -> bool {
        self.options.in_place
            && !entry.is_stream()
            && stat::is_file(now)
            && self.claims.may_write_into(now, entry)
    }

    /// Closes a large file that is no longer transferred. Whether it was open.
    pub(super) fn close_large(&self, path: &RelPath) -> bool {
        let slot = self.committer.large_files.lock().remove(path);
        let large = slot.and_then(|slot| slot.lock().take());
        if let Some(large) = &large {
            self.committer.rechecks.cancel(large);
        }
        // A file that could not be opened is that of another process.
        large.is_some()
    }

    /// Removes the staged files of this run that no run can resume, because no slice is in a journal: the disk is full.
    pub(super) fn abandon_useless(&self) {
        let slots = std::mem::take(&mut *self.committer.large_files.lock());
        for large in slots.into_values().filter_map(|slot| slot.lock().take()) {
            large.abandon_useless();
        }
    }

    /// Remembers to remove the staged file of a complete file at the end.
    pub(super) fn clean_later(&self, entry: &Entry) {
        self.unclean.lock().push(Arc::new(entry.clone()));
    }
}
