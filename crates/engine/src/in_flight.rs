//! The batches that workers have taken and that are not settled.

use std::collections::HashMap;

use haul_core::sync::Mutex;
use haul_core::{Batch, RelPath};

use crate::queue::is_large;

/// Counts batches in flight, and slices in flight of each large file.
#[derive(Default)]
pub(crate) struct InFlight(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    batches: u64,
    /// Slices of large files.
    slices: HashMap<RelPath, u32>,
}

impl InFlight {
    /// A worker has taken this batch.
    pub(crate) fn add(&self, batch: &Batch) {
        let mut counts = self.0.lock();
        counts.batches += 1;
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

    /// The number of batches in flight.
    pub(crate) fn batches(&self) -> u64 {
        self.0.lock().batches
    }
}
