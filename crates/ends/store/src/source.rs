//! The reading end.

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use haul_core::source::ScanVisit;
use haul_core::{Batch, BatchData, BufferPool, Digest, Entry, RelPath, Result, ScanOptions, Source, Traffic};
use haul_object::Object;

use super::ahead::{Ahead, Content};
use super::known::{Fact, Known};
use super::read::{self, Checked};
use super::tree::{At, Tree};
use super::{Detail, notes, threads, walk};
use haul_ends::thread_pool::ThreadPool;

/// Reading that goes on at once with profit: each reads a slice, or asks for hundreds of small objects.
const READERS: u32 = 10;

/// A tree in a bucket, to be read.
pub(super) struct ObjectSource {
    pub(super) tree: Tree,
    pub(super) detail: Detail,
    /// What is at the root, once it was asked for.
    at_root: OnceLock<At>,
    pub(super) buffers: BufferPool,
    pub(super) known: Known,
    pub(super) ahead: Ahead,
    /// Bytes of content that have come.
    pub(super) came: AtomicU64,
    /// What was read of large files whose digest is recorded.
    pub(super) large_files: Mutex<HashMap<RelPath, Arc<Checked>>>,
    /// For questions about objects.
    pub(super) look: ThreadPool,
    /// For their content.
    pub(super) fetch: ThreadPool,
}

impl ObjectSource {
    pub(super) fn new(tree: Tree, detail: Detail, buffers: BufferPool) -> Self {
        Self {
            tree,
            detail,
            at_root: OnceLock::new(),
            buffers,
            known: Known::default(),
            ahead: Ahead::default(),
            came: AtomicU64::new(0),
            large_files: Mutex::default(),
            look: threads(),
            fetch: threads(),
        }
    }

    /// What is at the root.
    pub(super) fn at_root(&self) -> Result<At> {
        match self.at_root.get() {
            Some(at) => Ok(*at),
            None => {
                let at = self.tree.at_root()?;
                Ok(*self.at_root.get_or_init(|| at))
            }
        }
    }

    /// What is at `path`, asked of the store; remembered.
    pub(super) fn ask(&self, path: &RelPath) -> Result<Option<Arc<Fact>>> {
        let key = self.tree.key(path);
        let object = if key.is_empty() { None } else { self.tree.client.look(&key)? };
        match object {
            Some(object) => self.learn(path, object, false).map(Some),
            None => self.ask_folder(path),
        }
    }

    /// What is known of a folder, asked of the store; remembered.
    pub(super) fn ask_folder(&self, path: &RelPath) -> Result<Option<Arc<Fact>>> {
        let folder = self.tree.folder(path);
        let own = self.tree.look_folder(path)?;
        if let Some(own) = own.as_ref().filter(|own| notes::are_there(own)) {
            return self.learn(path, own.clone(), true).map(Some);
        }
        let found = self.tree.below_prefix(&folder)?;
        if found.is_none() && !folder.is_empty() {
            return Ok(None);
        }
        let first = found.as_ref().and_then(|page| page.objects.first());
        self.learn(path, own.unwrap_or_else(|| walk::implied(first)), true).map(Some)
    }

    /// Remembers what an object says. Of one of several names of a large file the digest, by which it is told whether they still
    /// are names of one file, may be beside it.
    ///
    /// # Errors
    /// If the store does not say.
    pub(super) fn learn(&self, path: &RelPath, object: Object, folder: bool) -> Result<Arc<Fact>> {
        self.learn_with(path, object, folder, None)
    }

    /// The same for a file or what is like one, of which a listing tells; `None` if it is gone.
    ///
    /// # Errors
    /// If the store does not say.
    pub(super) fn learn_listed(&self, path: &RelPath, listed: &Object) -> Result<Option<Arc<Fact>>> {
        let Some((object, content)) = self.ahead.look(&self.tree.client, listed)? else { return Ok(None) };
        self.came.fetch_add(content.as_ref().map_or(0, Content::len), Ordering::Relaxed);
        self.learn_with(path, object, false, content).map(Some)
    }

    fn learn_with(
        &self,
        path: &RelPath,
        mut object: Object,
        folder: bool,
        content: Option<Content>,
    ) -> Result<Arc<Fact>> {
        let digest = if !folder && notes::is_of_several_names(&object) {
            self.tree.recorded(&object)?
        } else {
            notes::digest(&object)
        };
        let entry = notes::read(path, &object, folder, digest.as_ref());
        object.metadata = Vec::new();
        let content = content.filter(|_| entry.is_file());
        let fact = Arc::new(Fact { object, entry, digest, content });
        self.known.put(Arc::clone(&fact));
        Ok(fact)
    }
}

impl Source for ObjectSource {
    fn root(&self) -> Result<Option<Entry>> {
        let root = RelPath::root();
        Ok(match self.at_root()? {
            At::Nothing => None,
            At::Object => self.ask(&root)?.map(|fact| fact.entry.clone()),
            At::Folder => self.ask_folder(&root)?.map(|fact| fact.entry.clone()),
        })
    }

    fn scan(&self, options: &ScanOptions, visit: ScanVisit<'_>) -> Result<()> {
        walk::walk(self, options, visit)
    }

    fn lookup(&self, paths: &[RelPath]) -> Result<Vec<Result<Option<Entry>>>> {
        Ok(self.look.each(paths, |path| match self.known.get(path) {
            Some(fact) => Ok(Some(fact.entry.clone())),
            None => self.ask(path).map(|fact| fact.map(|fact| fact.entry.clone())),
        }))
    }

    fn read(&self, batch: &Arc<Batch>) -> Result<BatchData> {
        read::read(self, batch)
    }

    fn digest(&self, paths: &[RelPath]) -> Result<Vec<Result<Digest>>> {
        read::digest(self, paths)
    }

    fn streams(&self) -> u32 {
        READERS
    }

    fn traffic(&self) -> Traffic {
        Traffic { wire_bytes: self.came.load(Ordering::Relaxed), ..Traffic::default() }
    }
}
