//! What this run has learned of objects by asking for each: a bounded number of them.

use haul_core::sync::{Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use haul_core::{Digest, Entry, RelPath};
use haul_object::Object;

use super::ahead::Content;

/// Objects that are remembered: more than are between scan and reading at a time, some 15 MiB.
const MOST: usize = 40_000;

/// An object and what it stands for.
pub(super) struct Fact {
    /// The object, without its notes.
    pub(super) object: Object,
    pub(super) entry: Entry,
    /// The digest that is noted.
    pub(super) digest: Option<Digest>,
    /// Content that came with what is noted.
    pub(super) content: Option<Content>,
}

/// Facts by path; the oldest are forgotten.
#[derive(Default)]
pub(super) struct Known(Mutex<State>);

#[derive(Default)]
struct State {
    facts: HashMap<RelPath, Arc<Fact>>,
    order: VecDeque<RelPath>,
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    pub(super) fn get(&self, path: &RelPath) -> Option<Arc<Fact>> {
        self.lock().facts.get(path).cloned()
    }

    pub(super) fn put(&self, fact: Arc<Fact>) {
        let mut state = self.lock();
        let path = fact.entry.path.clone();
        if state.facts.insert(path.clone(), fact).is_none() {
            state.order.push_back(path);
        }
        while state.order.len() > MOST
            && let Some(oldest) = state.order.pop_front()
        {
            state.facts.remove(&oldest);
        }
    }

    /// It is no longer so.
    pub(super) fn forget(&self, path: &RelPath) {
        // Its place in the order ends some other fact early, which costs a question.
        self.lock().facts.remove(path);
    }
}
