//! The metadata of objects that this run has asked for, up to a limit.

use haul_core::sync::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use haul_core::{Digest, Entry, RelPath};
use haul_object::Object;

use super::prefetch::PrefetchedContent;

/// How many objects are remembered: more than there ever are between scan and read, some 15 MiB.
const MOST: usize = 40_000;

/// An object and the entry that it stands for.
pub(super) struct CachedObject {
    /// The object, without its metadata.
    pub(super) object: Object,
    pub(super) entry: Entry,
    /// The recorded digest.
    pub(super) digest: Option<Digest>,
    /// Content that was fetched together with the metadata.
    pub(super) content: Option<PrefetchedContent>,
}

/// Objects by path. The oldest are dropped.
#[derive(Default)]
pub(super) struct MetadataCache(Mutex<CacheState>);

#[derive(Default)]
struct CacheState {
    objects: HashMap<RelPath, Arc<CachedObject>>,
    order: VecDeque<RelPath>,
}

impl MetadataCache {
    pub(super) fn get(&self, path: &RelPath) -> Option<Arc<CachedObject>> {
        self.0.lock().objects.get(path).cloned()
    }

    pub(super) fn put(&self, object: Arc<CachedObject>) {
        let mut state = self.0.lock();
        let path = object.entry.path.clone();
        if state.objects.insert(path.clone(), object).is_none() {
            state.order.push_back(path);
        }
        while state.order.len() > MOST
            && let Some(oldest) = state.order.pop_front()
        {
            state.objects.remove(&oldest);
        }
    }

    /// Drops an outdated object.
    pub(super) fn forget(&self, path: &RelPath) {
        // Its place in the order drops some other object early, which costs one request.
        self.0.lock().objects.remove(path);
    }
}
