//! The state that the parts of the source share.

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use haul_core::entry::Identity;
use haul_core::{BufferPool, Digest, FileTree, RelPath, Result};
use haul_ends::hashed::HashedBytes;
use haul_ends::thread_pool::ThreadPool;
use haul_object::Object;
use haul_streams::sidecar;

use super::listing_entry::implied;
use super::metadata;
use super::metadata_cache::{CachedObject, MetadataCache};
use super::prefetch::{Prefetch, PrefetchedContent};
use super::request_threads::threads;
use super::tree::{RootKind, Tree};

/// How much a source reports of each entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// All metadata: one request for each object, where listings do not include it.
    Full,
    /// Names and kinds (file or directory), as listings show them: enough to find extraneous entries.
    Names,
}

/// The digest of a large file as its slices are read, and the recorded digest.
pub(super) struct LargeFileCheck {
    pub(super) identity: Identity,
    /// The recorded digest, once it was looked up.
    pub(super) recorded: Mutex<Option<Option<Digest>>>,
    pub(super) tree: Mutex<FileTree>,
}

/// A tree in a bucket, to be read.
pub(super) struct SourceState {
    pub(super) tree: Tree,
    pub(super) detail: Detail,
    /// The kind of the root, once it was looked up.
    at_root: OnceLock<RootKind>,
    pub(super) buffers: BufferPool,
    pub(super) cache: MetadataCache,
    pub(super) prefetch: Prefetch,
    /// Bytes of content that were received.
    pub(super) came: AtomicU64,
    /// Bytes of content that were hashed for digests.
    pub(super) hashed: HashedBytes,
    /// The large files that are being read.
    pub(super) large_files: Mutex<HashMap<RelPath, Arc<LargeFileCheck>>>,
    /// For requests about objects.
    pub(super) look: ThreadPool,
    /// For content.
    pub(super) fetch: ThreadPool,
}

impl SourceState {
    pub(super) fn new(tree: Tree, detail: Detail, buffers: BufferPool) -> Self {
        Self {
            tree,
            detail,
            at_root: OnceLock::new(),
            buffers,
            cache: MetadataCache::default(),
            prefetch: Prefetch::default(),
            hashed: HashedBytes::default(),
            came: AtomicU64::new(0),
            large_files: Mutex::default(),
            look: threads(),
            fetch: threads(),
        }
    }

    /// The kind of the root.
    pub(super) fn at_root(&self) -> Result<RootKind> {
        match self.at_root.get() {
            Some(at) => Ok(*at),
            None => {
                let at = self.tree.at_root()?;
                Ok(*self.at_root.get_or_init(|| at))
            }
        }
    }

    /// Asks the store for the entry at `path` and caches it.
    pub(super) fn ask(&self, path: &RelPath) -> Result<Option<Arc<CachedObject>>> {
        let key = self.tree.key(path);
        let object = if key.is_empty() { None } else { self.tree.client.look(&key)? };
        match object {
            Some(object) => self.learn(path, object, false).map(Some),
            None => self.ask_directory(path),
        }
    }

    /// Asks the store for the directory at `path` and caches it.
    pub(super) fn ask_directory(&self, path: &RelPath) -> Result<Option<Arc<CachedObject>>> {
        let directory = self.tree.directory(path);
        let own = self.tree.look_directory(path)?;
        if let Some(own) = own.as_ref().filter(|own| metadata::are_there(own)) {
            return self.learn(path, own.clone(), true).map(Some);
        }
        let found = self.tree.below_prefix(&directory)?;
        if found.is_none() && !directory.is_empty() {
            return Ok(None);
        }
        let first = found.as_ref().and_then(|page| page.objects.first());
        self.learn(path, own.unwrap_or_else(|| implied(first)), true).map(Some)
    }

    /// Caches the entry that an object stands for. Names of one file are recognized by their digest, which for a large
    /// file may be in its sidecar.
    ///
    /// # Errors
    /// The error of the failed request.
    pub(super) fn learn(&self, path: &RelPath, object: Object, directory: bool) -> Result<Arc<CachedObject>> {
        self.learn_with(path, object, directory, None)
    }

    /// Asks for a listed object that is not a directory, and caches it; `None` if it is gone.
    ///
    /// # Errors
    /// The error of the failed request.
    pub(super) fn learn_listed(&self, path: &RelPath, listed: &Object) -> Result<Option<Arc<CachedObject>>> {
        let Some((object, content)) = self.prefetch.look(&self.tree.client, listed)? else { return Ok(None) };
        self.came.fetch_add(content.as_ref().map_or(0, PrefetchedContent::len), Ordering::Relaxed);
        self.learn_with(path, object, false, content).map(Some)
    }

    fn learn_with(
        &self,
        path: &RelPath,
        mut object: Object,
        directory: bool,
        content: Option<PrefetchedContent>,
    ) -> Result<Arc<CachedObject>> {
        let digest = if !directory && metadata::is_of_several_names(&object) {
            self.tree.recorded(&object)?
        } else {
            metadata::digest(&object)
        };
        if !directory {
            sidecar::complete(&self.tree.client, &mut object)?;
        }
        let entry = metadata::read(path, &object, directory, digest.as_ref());
        object.metadata = Vec::new();
        let content = content.filter(|_| entry.is_file());
        let cached = Arc::new(CachedObject { object, entry, digest, content });
        self.cache.put(Arc::clone(&cached));
        Ok(cached)
    }
}
