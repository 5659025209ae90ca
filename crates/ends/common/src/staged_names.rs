//! The names of files that are staged at a server.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_core::staging::{JOURNAL, PART, staging_name};

/// Makes staging names of small files, each once in all runs: the server may still work on files of a killed run.
pub struct StagedNames {
    run: u128,
    count: AtomicU64,
}

impl Default for StagedNames {
    fn default() -> Self {
        Self { run: haul_core::random::number(), count: AtomicU64::new(0) }
    }
}

impl StagedNames {
    /// A new one for the entry with this name.
    pub fn next(&self, name: &[u8]) -> Vec<u8> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        staging_name(&[name, &self.run.to_le_bytes(), &count.to_le_bytes()].join(&b'/'), PART)
    }
}

/// The `found` files that no run can resume and that are not `active`: staged files without a journal, and journals
/// without a staged file.
pub fn stale<P: AsRef<[u8]> + Clone + Eq + Hash>(found: &HashSet<P>, active: &HashSet<P>) -> Vec<P> {
    let paths: HashSet<&[u8]> = found.iter().map(AsRef::as_ref).collect();
    let is_alone = |path: &[u8]| {
        let other = match path.strip_suffix(PART) {
            Some(stem) => [stem, JOURNAL].concat(),
            None => [path.strip_suffix(JOURNAL).unwrap_or(path), PART].concat(),
        };
        !paths.contains(&other[..])
    };
    found.iter().filter(|path| is_alone((*path).as_ref()) && !active.contains(*path)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_staged_file_alone_and_not_in_use_is_stale() {
        let set =
            |names: &[&str]| -> HashSet<String> { names.iter().map(|name| (*name).to_owned()).collect() };
        let found = set(&["a.part", "a.journal", "b.part", "c.journal", "d.part", "e/a.part"]);
        let mut stale = stale(&found, &set(&["d.part"]));
        stale.sort();
        assert_eq!(stale, ["b.part", "c.journal", "e/a.part"]);
    }

    #[test]
    fn no_name_is_made_twice() {
        let names: Vec<StagedNames> = (0..2).map(|_| StagedNames::default()).collect();
        let all: HashSet<Vec<u8>> =
            names.iter().flat_map(|names| ["a", "a", "b"].map(|name| names.next(name.as_bytes()))).collect();
        assert_eq!(all.len(), 6);
        assert!(all.iter().all(|name| haul_core::staging::is_staging_name(name)));
    }
}
