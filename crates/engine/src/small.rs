//! Small files that wait to be handed out.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use haul_core::{Entry, RelPath};

/// Weight of the small files in one batch at most, in bytes of memory.
const BUNDLE_WEIGHT: usize = 1024 * 1024;
/// Files of one folder that follow each other in a bundle, if there are other folders.
pub(crate) const RUN: usize = 16;
/// Small files by their folders, which take turns.
#[derive(Default)]
pub(crate) struct Small {
    folders: HashMap<RelPath, VecDeque<Arc<Entry>>>,
    /// The folders with files, each once.
    turns: VecDeque<RelPath>,
    pub(crate) count: usize,
    /// What they take in memory, in bytes.
    pub(crate) weight: usize,
}

impl Small {
    pub(crate) fn push(&mut self, entry: Arc<Entry>) {
        self.count += 1;
        self.weight += entry.weight();
        let folder = entry.path.parent().unwrap_or_else(RelPath::root);
        let files = self.folders.entry(folder.clone()).or_default();
        if files.is_empty() {
            self.turns.push_back(folder);
        }
        files.push_back(entry);
    }

    /// Up to `most` files of `bytes` together, each folder in turn.
    pub(crate) fn take(&mut self, most: usize, bytes: u64) -> Vec<Arc<Entry>> {
        let mut taken = Vec::with_capacity(most);
        let (mut left, mut weight) = (bytes, 0);
        while taken.len() < most
            && let Some(folder) = self.turns.pop_front()
        {
            let Some(files) = self.folders.get_mut(&folder) else { continue };
            let run = (most - taken.len()).min(RUN);
            let mut fits = true;
            for _ in 0..run {
                let fits_in = |entry: &Entry| {
                    entry.len <= left && (taken.is_empty() || weight + entry.weight() <= BUNDLE_WEIGHT)
                };
                let Some(entry) = files.pop_front_if(|entry| fits_in(entry)) else {
                    fits = files.is_empty();
                    break;
                };
                left -= entry.len;
                weight += entry.weight();
                self.count -= 1;
                self.weight = self.weight.saturating_sub(entry.weight());
                taken.push(entry);
            }
            if files.is_empty() {
                self.folders.remove(&folder);
            } else if fits {
                self.turns.push_back(folder);
            } else {
                self.turns.push_front(folder);
                break;
            }
        }
        taken
    }
}
