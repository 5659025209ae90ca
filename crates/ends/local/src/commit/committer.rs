//! The state that writing and committing share, and the publishing of one file.

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

use haul_core::entry::Identity;
use haul_core::{Digest, Entry, Error, ErrorKind, Outcome, RelPath, Result, Retry, SLICE_LEN, SinkOptions};
use rustix::fs::Advice;

use super::queue::CommitQueue;
use super::rechecks::Rechecks;
use super::superseded::Superseded;
use super::sync::{Disk, Syncer};
use super::unsynced::Unsynced;
use crate::delta::base::Bases;
use crate::meta::metadata::MetadataSetter;
use crate::path::descriptors;
use crate::read::digest;
use crate::read::page_cache::{self, CachedFile};
use crate::stage::large::LargeFile;
use crate::stage::staged::Staged;
use crate::tree::local_tree::LocalTree;
use haul_ends::cache::Cache;
use haul_ends::hashed::HashedBytes;
use haul_ends::thread_pool::ThreadPool;

/// Files that were just committed, remembered for slices that arrive again.
const COMMITTED: usize = 4096;

/// The place of a large file in the table. Opening one file does not hold up the others.
pub(crate) type LargeSlot = Arc<Mutex<Option<Arc<LargeFile>>>>;

/// The state that the writing threads and the committing thread share.
pub(crate) struct Committer {
    pub(crate) tree: LocalTree,
    pub(crate) metadata: MetadataSetter,
    pub(crate) queue: Arc<CommitQueue>,
    /// Reads back the content that interrupted runs have left.
    pub(crate) rechecks: Arc<Rechecks>,
    pub(crate) large_files: Mutex<HashMap<RelPath, LargeSlot>>,
    /// Files that changed during the run.
    pub(crate) superseded: Superseded,
    /// Large files that were committed.
    pub(crate) committed: Mutex<Cache<RelPath, (Identity, Digest)>>,
    /// The old versions of large files that are compared.
    pub(crate) bases: Bases,
    /// The threads that write and commit.
    pub(crate) threads: ThreadPool,
    pub(crate) syncer: Syncer,
    pub(crate) durable: bool,
    /// The records of runs without syncs.
    pub(crate) unsynced: Unsynced,
    pub(crate) verify_disk: bool,
}

impl Committer {
    pub(crate) fn new(
        tree: LocalTree,
        metadata: MetadataSetter,
        threads: ThreadPool,
        options: &SinkOptions,
        disk: Box<dyn Disk>,
        unsynced: Unsynced,
    ) -> Self {
        let queue = Arc::new(CommitQueue::new(options.durable));
        Self {
            syncer: Syncer::new(disk, Arc::clone(&tree.root.ops)),
            rechecks: Arc::new(Rechecks::new(Arc::clone(&queue))),
            queue,
            threads,
            tree,
            metadata,
            large_files: Mutex::default(),
            superseded: Superseded::default(),
            committed: Mutex::new(Cache::new(COMMITTED)),
            bases: Bases::new(),
            durable: options.durable,
            unsynced,
            verify_disk: options.verify_disk,
        }
    }

    /// The error of a file that could not be synced. Written content may be lost although it is still cached, so the
    /// whole file must be sent again.
    pub(crate) fn sync_error(&self, error: &std::io::Error, entry: &Entry) -> Error {
        let root = &self.tree.root;
        Error::io(root.side(), "sync", error).on(root.shown(&entry.path)).with_retry(Retry::Anew)
    }

    /// Refuses an earlier state of a file that changed during the run.
    ///
    /// # Errors
    /// `SourceChanged`.
    pub(crate) fn check_current(&self, entry: &Entry) -> Result<()> {
        if self.superseded.is_outdated(entry) { Err(self.outdated(entry)) } else { Ok(()) }
    }

    pub(super) fn outdated(&self, entry: &Entry) -> Error {
        let cause = "the file has changed at the source since it was read";
        self.tree.root.fault(ErrorKind::SourceChanged, "write", &entry.path, cause)
    }

    /// Renames a complete file into place.
    pub(crate) fn publish(&self, staged: &Staged, entry: &Entry, digest: Digest) -> Result<Outcome> {
        if !self.durable
            && entry.len <= SLICE_LEN
            && !self.tree.is_network_fs()
            && let Err(cause) = self.unsynced.begin(staged.dev)
        {
            let cause = format!("{cause}; after a crash of this machine, run once with --checksum");
            self.metadata.warn("the record of --no-fsync", &cause, &entry.path);
        }
        if self.verify_disk {
            self.read_back(&staged.file, entry, digest)?;
        }
        self.superseded
            .publish(entry, || staged.publish(&self.tree, &entry.path))
            .unwrap_or_else(|| Err(self.outdated(entry)))?;
        if self.durable {
            page_cache::release(&staged.file, 0, entry.len);
        }
        Ok(Outcome::Committed(Some(digest)))
    }

    /// Reads the file from the disk, past the page cache, and compares its digest.
    ///
    /// # Errors
    /// `Corrupt` if the disk returns other content.
    pub(crate) fn read_back(&self, file: &File, entry: &Entry, digest: Digest) -> Result<()> {
        let root = &self.tree.root;
        let failed = |e: &std::io::Error| Error::io(root.side(), "read back", e).on(root.shown(&entry.path));
        // Only clean pages can be dropped.
        root.ops.one();
        file.sync_data().map_err(|e| failed(&e))?;
        rustix::fs::fadvise(file, 0, None, Advice::DontNeed).map_err(|e| failed(&e.into()))?;
        let twin = descriptors::wait_for(|| rustix::io::fcntl_dupfd_cloexec(file, 0));
        let opened = CachedFile::new(twin.map_err(|e| failed(&e.into()))?.into(), entry.len);
        let read = digest::of_opened(&root.ops, &opened, entry.len, &HashedBytes::default())
            .map_err(|e| failed(&e))?;
        if read == digest {
            return Ok(());
        }
        let cause = format!("the disk gave back other content: {read} instead of {digest}");
        Err(root.fault(ErrorKind::Corrupt, "verify", &entry.path, &cause))
    }
}
