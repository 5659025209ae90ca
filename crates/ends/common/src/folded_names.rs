//! Names of a run, at a destination that ignores their case.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use haul_core::RelPath;
use haul_core::sync::Mutex;

/// The names that a run has written or found up to date: 16 bytes for each.
#[derive(Default)]
pub struct FoldedNames {
    /// The hash of each path, by the hash of the path without its case.
    taken: Mutex<HashMap<u64, u64>>,
}

impl FoldedNames {
    /// Takes the name of an entry. Returns whether the entry has it; not if one of another case had it before.
    pub fn take(&self, path: &RelPath) -> bool {
        let exact = hash(path.as_bytes());
        *self.taken.lock().entry(folded(path.as_bytes())).or_insert(exact) == exact
    }

    /// Whether an entry of the run has the name in another case.
    pub fn is_other(&self, path: &RelPath) -> bool {
        let exact = hash(path.as_bytes());
        self.taken.lock().get(&folded(path.as_bytes())).is_some_and(|taken| *taken != exact)
    }
}

/// The hash of a name or path without its case.
#[must_use]
pub fn folded(bytes: &[u8]) -> u64 {
    match std::str::from_utf8(bytes) {
        Ok(text) => hash(text.chars().map(upper).collect::<String>().as_bytes()),
        Err(_) => hash(&bytes.to_ascii_uppercase()),
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// The upper case of a letter, if that is one letter, as file systems define it.
fn upper(letter: char) -> char {
    let mut upper = letter.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) => upper,
        _ => letter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_differ_in_case_only_are_one() {
        let path = |text: &str| RelPath::new(text.as_bytes()).unwrap();
        for (one, other) in [("a/B", "A/b"), ("\u{fc}", "\u{dc}")] {
            let names = FoldedNames::default();
            assert!(names.take(&path(one)) && names.take(&path(one)) && !names.take(&path(other)));
            assert!(
                names.is_other(&path(other)) && !names.is_other(&path(one)) && !names.is_other(&path("c"))
            );
        }
        assert_ne!(folded("stra\u{df}e".as_bytes()), folded(b"strasse"));
        assert_eq!(folded(b"a\xff"), folded(b"A\xff"));
    }
}
