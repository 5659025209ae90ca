//! The names in each directory of a destination, from one page of a listing. Names that the page covers need no
//! request, nor does anything below a directory that does not exist.

use haul_core::sync::Mutex;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::{ErrorKind, RelPath, Result};
use haul_object::Object;

use super::tree::Tree;

/// How many names (some 20 MiB), and how many directories, are remembered.
const MOST: (usize, usize) = (150_000, 8192);

/// An object with metadata counts as so many names.
const NOTES: usize = 8;

/// The names in one directory, not below it.
#[derive(Default)]
pub(super) struct DirectoryNames {
    /// The page holds all names.
    whole: bool,
    objects: HashMap<String, u64>,
    /// The objects whose metadata the listing includes, until they are taken.
    with_metadata: Mutex<HashMap<String, Object>>,
    directories: HashSet<String>,
    /// There are objects below the directory, or it has an object of its own.
    is_there: bool,
    /// The number of names that it counts as.
    weight: usize,
    /// An object has the name of the directory itself.
    blocked: AtomicBool,
}

/// The state of a name in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListedName {
    /// The length of the object of this name, if there is one.
    pub(super) object: Result<Option<u64>, NotListed>,
    /// Whether there is a directory of this name.
    pub(super) directory: Result<bool, NotListed>,
}

/// The page ends before the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotListed;

impl DirectoryNames {
    /// The state of the entry at `path`, which is in this directory, on the page.
    pub(super) fn seen(&self, tree: &Tree, path: &RelPath) -> ListedName {
        let name = tree.encode(path.name());
        let object = self.objects.get(&name).copied();
        let directory = self.directories.contains(&name);
        ListedName {
            object: if object.is_some() || self.whole { Ok(object) } else { Err(NotListed) },
            directory: if directory || self.whole { Ok(directory) } else { Err(NotListed) },
        }
    }

    /// Whether there is anything below the directory, or an object of its own.
    pub(super) fn is_there(&self) -> bool {
        self.is_there
    }

    /// Whether an object has the name of the directory; true only once.
    pub(super) fn take_blocked(&self) -> bool {
        self.blocked.swap(false, Ordering::Relaxed)
    }

    /// The object at `path`, if the listing includes its metadata. Only once, as it may be outdated later.
    pub(super) fn take_with_metadata(&self, tree: &Tree, path: &RelPath) -> Option<Object> {
        self.with_metadata.lock().remove(&tree.encode(path.name()))
    }
}

/// The listings by directory. The oldest are dropped, except that of the root.
#[derive(Default)]
pub(super) struct DirectoryListings(Mutex<ListingsState>);

#[derive(Default)]
struct ListingsState {
    slots: HashMap<RelPath, Arc<ListingSlot>>,
    order: VecDeque<RelPath>,
    names: usize,
}

/// The names in one directory, once it was listed.
#[derive(Default)]
struct ListingSlot(Mutex<Option<Arc<DirectoryNames>>>);

impl DirectoryListings {
    /// The names in `directory`.
    ///
    /// # Errors
    /// The error of the listing.
    pub(super) fn of(&self, tree: &Tree, directory: &RelPath) -> Result<Arc<DirectoryNames>> {
        let slot = Arc::clone(self.0.lock().slots.entry(directory.clone()).or_default());
        let mut known = slot.0.lock();
        if let Some(page) = &*known {
            return Ok(Arc::clone(page));
        }
        let page = Arc::new(self.load(tree, directory)?);
        *known = Some(Arc::clone(&page));
        self.keep(directory, &page);
        Ok(page)
    }

    /// Lists a directory, unless its parent's listing shows that it does not exist. Only children wait for their
    /// parents, so there is no deadlock.
    fn load(&self, tree: &Tree, directory: &RelPath) -> Result<DirectoryNames> {
        let mut blocked = false;
        if let Some(parent) = directory.parent() {
            let seen = self.of(tree, &parent)?.seen(tree, directory);
            blocked = matches!(seen.object, Ok(Some(_)));
            if seen.directory == Ok(false) {
                let blocked = AtomicBool::new(blocked);
                return Ok(DirectoryNames { whole: true, blocked, ..DirectoryNames::default() });
            }
        }
        let prefix = tree.directory(directory);
        let listed = match tree.client.list(&prefix, true, None) {
            Ok(listed) => listed,
            // There is no such bucket: the first write reports it.
            Err(error) if error.kind() == ErrorKind::NotFound => haul_object::ListPage::default(),
            Err(error) => return Err(error),
        };
        let name = |key: &str| key.get(prefix.len()..).unwrap_or_default().to_owned();
        let objects = listed.objects.iter().filter(|object| object.key != prefix);
        let with_metadata = listed.objects.iter().filter(|object| object.has_metadata);
        let weigh = |object: &Object| if object.has_metadata { 1 + NOTES } else { 1 };
        Ok(DirectoryNames {
            weight: listed.objects.iter().map(weigh).sum::<usize>() + listed.prefixes.len(),
            with_metadata: Mutex::new(
                with_metadata.map(|object| (name(&object.key), object.clone())).collect(),
            ),
            whole: listed.next.is_none(),
            is_there: !listed.objects.is_empty() || !listed.prefixes.is_empty(),
            objects: objects.map(|object| (name(&object.key), object.len)).collect(),
            directories: listed.prefixes.iter().map(|key| name(key.trim_end_matches('/'))).collect(),
            blocked: AtomicBool::new(blocked),
        })
    }

    fn keep(&self, directory: &RelPath, page: &DirectoryNames) {
        let mut state = self.0.lock();
        state.names += page.weight;
        if !directory.is_root() {
            state.order.push_back(directory.clone());
        }
        while (state.names > MOST.0 || state.order.len() > MOST.1)
            && let Some(oldest) = state.order.pop_front()
        {
            if let Some(slot) = state.slots.remove(&oldest) {
                let page = slot.0.try_lock().and_then(|page| page.clone());
                state.names = state.names.saturating_sub(page.map_or(0, |page| page.weight));
            }
        }
    }
}
