//! Warnings for metadata that the destination cannot keep.

use haul_core::sync::Mutex;
use std::collections::HashMap;

use haul_core::text::{Clean, without_errno};
use haul_core::{MetaNote, RelPath};

/// The warnings of a run, one for each kind and cause.
#[derive(Default)]
pub struct MetadataWarnings(Mutex<HashMap<(String, String), MetaNote>>);

impl MetadataWarnings {
    /// Counts the entry at `path`: the end could not keep this kind of metadata because of `cause`.
    pub fn note(&self, what: &str, cause: &str, path: &RelPath) {
        self.add(what, cause, path, 1);
    }

    /// Warns of something that concerns no entry, unless it is known.
    pub fn note_without_entry(&self, what: &str, cause: &str) {
        self.add(what, cause, &RelPath::root(), 0);
    }

    fn add(&self, what: &str, cause: &str, path: &RelPath, entries: u64) {
        let mut warnings = self.0.lock();
        let warning = warnings.entry((what.to_owned(), cause.to_owned())).or_insert_with(|| MetaNote {
            what: what.to_owned().clean(),
            cause: without_errno(cause).clean(),
            count: 0,
            example: path.clone(),
        });
        warning.count += entries;
    }

    /// All warnings, sorted.
    pub fn all(&self) -> Vec<MetaNote> {
        let mut all: Vec<MetaNote> = self.0.lock().values().cloned().collect();
        all.sort_by(|a, b| (&a.what, &a.cause).cmp(&(&b.what, &b.cause)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_counted_by_kind_and_cause() {
        let warnings = MetadataWarnings::default();
        let path = |text: &[u8]| RelPath::new(text).unwrap();
        for (what, cause, at) in
            [("owner", "x", "a"), ("mode", "x", "b"), ("owner", "x", "c"), ("mode", "\u{1b}", "d")]
        {
            warnings.note(what, cause, &path(at.as_bytes()));
        }
        let all = warnings.all();
        let seen: Vec<_> = all.iter().map(|one| (&one.what[..], &one.cause[..], one.count)).collect();
        assert_eq!(seen, [("mode", "\\x1b", 1), ("mode", "x", 1), ("owner", "x", 2)]);
        assert_eq!(all[2].example, path(b"a"), "the first entry");
    }
}
