//! The reading end.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use haul_core::source::ScanVisit;
use haul_core::{
    Batch, BatchData, BufferPool, Digest, Entry, HungOperation, PageHashes, RelPath, Result, ScanOptions,
    Source,
};
use haul_index::Index;
use rustix::io::Errno;

use super::ahead::Ahead;
use super::read::Reader;
use super::root::Root;
use super::{descriptors, digest, stat, walk};
use haul_ends::thread_pool::ThreadPool;

/// Threads that look at names on this machine's disks: enough to hide a disk's latency, few enough for one core.
const LOOKERS: usize = 4;
/// Threads that begin to look at names or to read on a network file system.
const FEW: usize = 8;
/// Threads that there may be.
const MANY: usize = 256;
/// Threads that hash for one question, at most.
const HASHERS: usize = 8;

/// A tree of the local file system, to be read.
pub(super) struct LocalSource {
    root: Root,
    reader: Reader,
    /// Those who look at names.
    threads: ThreadPool,
    ahead: Ahead,
    /// What is known of it from an earlier run.
    index: Option<Arc<Index>>,
}

impl LocalSource {
    pub(super) fn new(root: Root, pool: BufferPool, index: Option<Arc<Index>>) -> Self {
        let (lookers, readers) = if root.is_network_fs() {
            (ThreadPool::growing(FEW, MANY), ThreadPool::growing(FEW, MANY))
        } else {
            (ThreadPool::growing(LOOKERS, LOOKERS), ThreadPool::fixed(1))
        };
        Self { root, reader: Reader::new(pool, readers), threads: lookers, ahead: Ahead::default(), index }
    }

    fn look(&self, path: &RelPath) -> Result<Option<Entry>> {
        let _doing = self.root.doing("look at", path);
        match self.root.at(path).and_then(|at| stat::entry(&self.root, &at, path.clone(), None)) {
            Ok(entry) => Ok(Some(entry)),
            // A link where a folder was, or a file: then there is nothing of that name below the root.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(self.root.error("look at", path, errno)),
        }
    }
}

impl Source for LocalSource {
    fn root(&self) -> Result<Option<Entry>> {
        self.look(&RelPath::root())
    }

    fn scan(&self, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
        walk::walk(&self.root, &self.threads, self.index.as_deref(), options, visit)
    }

    fn lookup(&self, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
        if self.root.is_network_fs() {
            self.ahead.look(&self.root, &self.threads, paths.iter(), false);
            return Ok(self.threads.each(paths, |path| self.look(path)));
        }
        Ok(paths.iter().map(|path| self.look(path)).collect())
    }

    fn holds(&self, paths: &[RelPath]) -> Result<Vec<Result<bool>>> {
        // On this machine's disks a look is cheaper than the index.
        let known = match &self.index {
            Some(index) if self.root.is_network_fs() => index.holds(paths),
            _ => vec![false; paths.len()],
        };
        let unknown = paths.iter().zip(&known).filter(|(_, known)| !**known).map(|(path, _)| path.clone());
        let mut found = self.lookup(&unknown.collect::<Vec<_>>())?.into_iter().fuse();
        let mut asked = || found.next().map_or(Ok(true), |found| found.map(|entry| entry.is_some()));
        Ok(known.into_iter().map(|known| if known { Ok(true) } else { asked() }).collect())
    }

    fn read(&self, batch: &Arc<Batch>) -> Result<BatchData> {
        Ok(self.reader.read(&self.root, batch))
    }

    fn read_changed(&self, batch: &Arc<Batch>, pages: &PageHashes) -> Result<BatchData> {
        Ok(self.reader.read_changed(&self.root, batch, pages))
    }

    fn prehash(&self, options: &ScanOptions, stop: &AtomicBool) {
        self.reader.early.hash(&self.root, &self.threads, &self.reader, options, stop);
    }

    fn digest(&self, paths: &[RelPath]) -> Result<Vec<Result<Digest>>> {
        Ok(ThreadPool::fixed(HASHERS).each(paths, |path| digest::of_path(&self.root, path)))
    }

    fn has_parts(&self) -> bool {
        true
    }

    fn hung(&self, patience: Duration) -> Vec<HungOperation> {
        self.root.hung(patience)
    }

    fn local_file(&self, entry: &Entry) -> Option<Result<File>> {
        let _doing = self.root.doing("read", &entry.path);
        Some(self.reader.file(&self.root, entry).and_then(|file| {
            let twin = descriptors::wait_for(|| rustix::io::fcntl_dupfd_cloexec(&file.file, 0));
            twin.map(File::from).map_err(|errno| self.root.error("open", &entry.path, errno))
        }))
    }
}
