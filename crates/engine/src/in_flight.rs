//! The batches that workers have taken and that are not settled.

use std::collections::HashMap;

use haul_core::sync::Mutex;
use haul_core::{Batch, RelPath};

use crate::queue::is_large;

/// Counts batches in flight, and slices in flight of each large file.
#[derive(Default)]
pub(crate) struct InFlight(Mutex<InFlightCounts>);

#[derive(Default)]
struct InFlightCounts {
    batches: u64,
    /// Slices of large files.
    slices: HashMap<RelPath, u32>,
    /// The first file of the batch that was taken last.
    last: Option<RelPath>,
}

impl InFlight {
    /// A worker has taken this batch.
    pub(crate) fn add(&self, batch: &Batch) {
        let mut counts = self.0.lock();
        counts.batches += 1;
        counts.last = batch.entries.first().map(|entry| entry.path.clone());
        for (entry, _) in batch.iter().filter(|(entry, _)| is_large(entry)) {
            *counts.slices.entry(entry.path.clone()).or_default() += 1;
        }
    }

    /// This batch is settled.
    pub(crate) fn remove(&self, batch: &Batch) {
        let mut counts = self.0.lock();
        counts.batches = counts.batches.saturating_sub(1);
        for (entry, _) in batch.iter().filter(|(entry, _)| is_large(entry)) {
            if let Some(count) = counts.slices.get_mut(&entry.path) {
                *count -= 1;
                if *count == 0 {
                    counts.slices.remove(&entry.path);
                }
            }
        }
    }

    /// Whether slices of this large file are in flight.
    pub(crate) fn has_slices_of(&self, path: &RelPath) -> bool {
        self.0.lock().slices.contains_key(path)
    }

    /// The file of which the most is in flight.
    pub(crate) fn current(&self) -> Option<RelPath> {
        let counts = self.0.lock();
        // Of several, always the same.
        let large = counts.slices.iter().max_by(|a, b| (a.1, b.0).cmp(&(b.1, a.0)));
        large.map(|(path, _)| path).or(counts.last.as_ref()).cloned()
    }

    /// The number of batches in flight.
    pub(crate) fn batches(&self) -> u64 {
        self.0.lock().batches
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use haul_core::{Entry, EntryKind, SLICE_LEN, Slice};

    use super::*;

    #[test]
    fn the_current_file_is_the_one_with_the_most_in_flight() {
        let in_flight = InFlight::default();
        assert_eq!(in_flight.current(), None);
        let file = |name: &str, len| Entry::new(RelPath::new(name.as_bytes()).unwrap(), EntryKind::File, len);
        let batch = |name: &str, len: u64, index: u32| Batch {
            entries: vec![Arc::new(file(name, len))],
            slices: vec![Slice::whole(0, index)],
            again: false,
        };
        let shown = || in_flight.current().unwrap().to_string();
        let first = batch("a", 8 * SLICE_LEN, 0);
        in_flight.add(&first);
        in_flight.add(&batch("b", 8 * SLICE_LEN, 0));
        in_flight.add(&batch("small", 1, 0));
        assert_eq!(shown(), "a");
        in_flight.add(&batch("b", 8 * SLICE_LEN, 1));
        assert_eq!(shown(), "b");
    }
}
