//! What is right in each folder of a destination, by one page of a listing: names that are not on it need not be asked
//! for, and nothing below a folder that is not there.

use haul_core::sync::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::{ErrorKind, RelPath, Result};
use haul_object::Object;

use super::tree::Tree;

/// Names that are remembered over all folders, some 20 MiB, and folders.
const MOST: (usize, usize) = (150_000, 8192);

/// An object with its notes takes as much memory as so many names.
const NOTES: usize = 8;

/// The names right in a folder.
#[derive(Default)]
pub(super) struct Page {
    /// These are all.
    whole: bool,
    objects: HashMap<String, u64>,
    /// Those whose notes the listing tells, until somebody takes them.
    noted: Mutex<HashMap<String, Object>>,
    folders: HashSet<String>,
    /// There are objects below the folder, or it has one of its own.
    is_there: bool,
    /// What it takes of the memory for all, when it is listed.
    weight: usize,
    /// An object bears the name of the folder itself.
    blocked: AtomicBool,
}

/// What a listing says of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// The length of an object of this name; `Err` where the listing does not say.
    pub(super) object: Result<Option<u64>, Unknown>,
    /// Whether there is a folder of this name.
    pub(super) folder: Result<bool, Unknown>,
}

/// The listing ends before the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unknown;

impl Page {
    /// What it says of the entry at `path` of `tree`, which is right in the folder.
    pub(super) fn seen(&self, tree: &Tree, path: &RelPath) -> Seen {
        let name = tree.encode(path.name());
        let object = self.objects.get(&name).copied();
        let folder = self.folders.contains(&name);
        Seen {
            object: if object.is_some() || self.whole { Ok(object) } else { Err(Unknown) },
            folder: if folder || self.whole { Ok(folder) } else { Err(Unknown) },
        }
    }

    /// Whether there is anything below the folder, or an object of its own.
    pub(super) fn is_there(&self) -> bool {
        self.is_there
    }

    /// Whether an object bears the name of the folder; true once.
    pub(super) fn take_blocked(&self) -> bool {
        self.blocked.swap(false, Ordering::Relaxed)
    }

    /// The object at `path`, if the listing told its notes; once, as it is what was there when it was listed.
    pub(super) fn take_noted(&self, tree: &Tree, path: &RelPath) -> Option<Object> {
        self.noted.lock().remove(&tree.encode(path.name()))
    }
}

/// Pages by folder; the oldest are forgotten, but never the root's.
#[derive(Default)]
pub(super) struct Pages(Mutex<State>);

#[derive(Default)]
struct State {
    slots: HashMap<RelPath, Arc<Slot>>,
    order: VecDeque<RelPath>,
    names: usize,
}

/// The page of one folder, once somebody has asked for it.
#[derive(Default)]
struct Slot(Mutex<Option<Arc<Page>>>);

impl Pages {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// The names right in `folder`.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub(super) fn of(&self, tree: &Tree, folder: &RelPath) -> Result<Arc<Page>> {
        let slot = Arc::clone(self.lock().slots.entry(folder.clone()).or_default());
        let mut known = slot.0.lock();
        if let Some(page) = &*known {
            return Ok(Arc::clone(page));
        }
        let page = Arc::new(self.load(tree, folder)?);
        *known = Some(Arc::clone(&page));
        self.keep(folder, &page);
        Ok(page)
    }

    /// A folder that the one above it does not have is empty; any other is listed. Only children wait for parents, so
    /// nobody waits for ever.
    fn load(&self, tree: &Tree, folder: &RelPath) -> Result<Page> {
        let mut blocked = false;
        if let Some(parent) = folder.parent() {
            let seen = self.of(tree, &parent)?.seen(tree, folder);
            blocked = matches!(seen.object, Ok(Some(_)));
            if seen.folder == Ok(false) {
                let blocked = AtomicBool::new(blocked);
                return Ok(Page { whole: true, blocked, ..Page::default() });
            }
        }
        let prefix = tree.folder(folder);
        let listed = match tree.client.list(&prefix, true, None) {
            Ok(listed) => listed,
            // The bucket is not there: writing says so.
            Err(error) if error.kind() == ErrorKind::NotFound => haul_object::Page::default(),
            Err(error) => return Err(error),
        };
        let name = |key: &str| key.get(prefix.len()..).unwrap_or_default().to_owned();
        let objects = listed.objects.iter().filter(|object| object.key != prefix);
        let noted = listed.objects.iter().filter(|object| object.noted);
        let weigh = |object: &Object| if object.noted { 1 + NOTES } else { 1 };
        Ok(Page {
            weight: listed.objects.iter().map(weigh).sum::<usize>() + listed.prefixes.len(),
            noted: Mutex::new(noted.map(|object| (name(&object.key), object.clone())).collect()),
            whole: listed.next.is_none(),
            is_there: !listed.objects.is_empty() || !listed.prefixes.is_empty(),
            objects: objects.map(|object| (name(&object.key), object.len)).collect(),
            folders: listed.prefixes.iter().map(|key| name(key.trim_end_matches('/'))).collect(),
            blocked: AtomicBool::new(blocked),
        })
    }

    fn keep(&self, folder: &RelPath, page: &Page) {
        let mut state = self.lock();
        state.names += page.weight;
        if !folder.is_root() {
            state.order.push_back(folder.clone());
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
