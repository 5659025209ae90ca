//! What of entries could not be kept.

use haul_core::sync::Mutex;
use std::collections::HashMap;

use haul_core::text::Clean;
use haul_core::{MetaNote, RelPath};

/// What could not be set, once for each kind.
#[derive(Default)]
pub struct Notes(Mutex<HashMap<(String, String), MetaNote>>);

impl Notes {
    /// Counts one entry of which `what` could not be kept, because of `cause`.
    pub fn note(&self, what: &str, cause: &str, path: &RelPath) {
        let mut notes = self.0.lock();
        let note = notes.entry((what.to_owned(), cause.to_owned())).or_insert_with(|| MetaNote {
            what: what.to_owned().clean(),
            cause: cause.to_owned().clean(),
            count: 0,
            example: path.clone(),
        });
        note.count += 1;
    }

    /// All of them, sorted.
    pub fn all(&self) -> Vec<MetaNote> {
        let notes = self.0.lock();
        let mut all: Vec<MetaNote> = notes.values().cloned().collect();
        all.sort_by(|a, b| (&a.what, &a.cause).cmp(&(&b.what, &b.cause)));
        all
    }
}
