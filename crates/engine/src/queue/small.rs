//! Small files in the queue.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use haul_core::{Entry, RelPath};

/// The largest weight of the small files in one batch, in bytes of memory.
const BUNDLE_WEIGHT: usize = 1024 * 1024;
/// The number of consecutive files of one directory in a bundle, if there are other directories.
pub(super) const RUN: usize = 16;

/// Small files by directory. The directories take turns.
#[derive(Default)]
pub(super) struct SmallFiles {
    dirs: HashMap<RelPath, VecDeque<Arc<Entry>>>,
    /// The directories with files, each once.
    turns: VecDeque<RelPath>,
    count: usize,
    weight: usize,
}

impl SmallFiles {
    /// The number of files.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The memory that they take, in bytes.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    pub(super) fn push(&mut self, entry: Arc<Entry>) {
        self.count += 1;
        self.weight += entry.weight();
        let dir = entry.path.parent().unwrap_or_else(RelPath::root);
        let files = self.dirs.entry(dir.clone()).or_default();
        if files.is_empty() {
            self.turns.push_back(dir);
        }
        files.push_back(entry);
    }

    /// Takes up to `most` files of up to `bytes` of content in total, each directory in turn.
    pub(super) fn take(&mut self, most: usize, bytes: u64) -> Vec<Arc<Entry>> {
        let mut taken = Vec::with_capacity(most);
        let (mut left, mut weight) = (bytes, 0);
        while taken.len() < most
            && let Some(dir) = self.turns.pop_front()
        {
            let Some(files) = self.dirs.get_mut(&dir) else { continue };
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
                self.dirs.remove(&dir);
            } else if fits {
                self.turns.push_back(dir);
            } else {
                self.turns.push_front(dir);
                break;
            }
        }
        taken
    }
}
