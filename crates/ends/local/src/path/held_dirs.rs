//! A cache of open directories, which finds the nearest open ancestor of a path.

use std::collections::HashMap;
use std::sync::Arc;

use super::ancestors::{Ancestor, AncestorHashes};
use super::at::Dir;

/// Of longer paths only the hash is kept.
const SHORT: usize = 512;

struct HeldDir {
    dir: Arc<Dir>,
    len: usize,
    /// The path, if it is short.
    path: Option<Box<[u8]>>,
    used: u64,
}

/// The open directories; the least recently used ones are closed.
pub(crate) struct HeldDirs {
    hashes: AncestorHashes,
    held: HashMap<u128, HeldDir>,
    clock: u64,
    cap: usize,
}

impl HeldDirs {
    pub(crate) fn new(cap: usize) -> Self {
        Self { hashes: AncestorHashes::default(), held: HashMap::new(), clock: 0, cap }
    }

    pub(crate) fn resize(&mut self, cap: usize) {
        self.cap = cap;
    }

    /// The hash of `path`.
    pub(crate) fn hash(&mut self, path: &[u8]) -> u128 {
        self.hashes.of(path).last().map_or(0, |step| step.hash)
    }

    /// The open directory of this ancestor of a path.
    pub(crate) fn get(&mut self, step: Ancestor) -> Option<Arc<Dir>> {
        self.clock += 1;
        let held = self.held.get_mut(&step.hash)?;
        held.used = self.clock;
        Some(held.dir.clone())
    }

    /// The open directory nearest to `path`, and the ancestors from there to `path`; all ancestors if none is open.
    pub(crate) fn nearest(&mut self, path: &[u8]) -> (Option<Arc<Dir>>, Vec<Ancestor>) {
        self.clock += 1;
        let steps = self.hashes.of(path);
        // Most often the path or its parent is open.
        for (at, step) in steps.iter().enumerate().rev().take(2) {
            if let Some(held) = self.held.get_mut(&step.hash) {
                held.used = self.clock;
                return (Some(held.dir.clone()), steps[at..].to_vec());
            }
        }
        // Open ancestors farther up are where the next such search begins: they count as used.
        let mut nearest = None;
        for (hash, held) in &mut self.held {
            if let Ok(at) = steps.binary_search_by_key(&held.len, |step| step.end)
                && steps[at].hash == *hash
            {
                self.clock += 1;
                held.used = self.clock;
                if nearest.as_ref().is_none_or(|(nearest, _)| *nearest < at) {
                    nearest = Some((at, held.dir.clone()));
                }
            }
        }
        match nearest {
            Some((at, dir)) => (Some(dir), steps[at..].to_vec()),
            None => (None, steps.to_vec()),
        }
    }

    pub(crate) fn put(&mut self, path: &[u8], step: Ancestor, dir: Arc<Dir>) {
        if self.held.len() >= self.cap {
            let mut ages: Vec<u64> = self.held.values().map(|held| held.used).collect();
            let middle = ages.len() / 2;
            let (_, median, _) = ages.select_nth_unstable(middle);
            let median = *median;
            self.held.retain(|_, held| held.used > median);
        }
        self.clock += 1;
        let path = (step.end <= SHORT).then(|| path.get(..step.end).map(Box::from)).flatten();
        self.held.insert(step.hash, HeldDir { dir, len: step.end, path, used: self.clock });
    }

    /// Closes directories at and below `path`, and all those with a long path that may be below it.
    pub(crate) fn forget(&mut self, path: &[u8]) {
        self.held.retain(|_, held| match &held.path {
            Some(held) => {
                let rest = held.strip_prefix(path);
                !(path.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/'))
            }
            None => held.len < path.len(),
        });
    }
}

#[cfg(test)]
mod tests {
    use haul_core::Ops;

    use super::*;

    fn dir() -> Arc<Dir> {
        let opened = std::fs::File::open("/").unwrap();
        Arc::new(Dir::new(opened.into(), false, &Arc::new(Ops::default())))
    }

    fn put(dirs: &mut HeldDirs, of: &str) {
        let step = Ancestor { end: of.len(), hash: dirs.hash(of.as_bytes()) };
        dirs.put(of.as_bytes(), step, dir());
    }

    fn nearest(dirs: &mut HeldDirs, of: &str) -> Option<usize> {
        let (held, steps) = dirs.nearest(of.as_bytes());
        held.map(|_| steps[0].end)
    }

    #[test]
    fn finds_the_nearest_open_ancestor() {
        let mut dirs = HeldDirs::new(8);
        ["", "a", "a/b", "a/bc", "ab"].iter().for_each(|of| put(&mut dirs, of));
        assert_eq!(nearest(&mut dirs, "a/b/c/d"), Some(3));
        assert_eq!(nearest(&mut dirs, "a/bcd"), Some(1));
        assert_eq!(nearest(&mut dirs, "x"), Some(0));
        dirs.forget(b"a/b");
        assert_eq!(nearest(&mut dirs, "a/b/c/d"), Some(1));
        assert_eq!(nearest(&mut dirs, "a/bc"), Some(4));
        dirs.forget(b"");
        assert!(nearest(&mut dirs, "a").is_none());
    }

    #[test]
    fn directories_with_long_paths_are_closed_with_those_above() {
        let mut dirs = HeldDirs::new(8);
        let long = "x/".repeat(2 * SHORT) + "x";
        let below = format!("{long}/y");
        for of in ["x", &long, &below] {
            put(&mut dirs, of);
        }
        assert_eq!(nearest(&mut dirs, &below), Some(below.len()));
        dirs.forget(below.as_bytes());
        assert_eq!(nearest(&mut dirs, &below), Some(long.len()));
        dirs.forget(b"x/x");
        assert_eq!(nearest(&mut dirs, &below), Some(1));
    }

    #[test]
    fn the_ancestor_that_was_found_stays_open() {
        let mut dirs = HeldDirs::new(8);
        ["", "a", "b", "c", "d", "e", "f", "g"].iter().for_each(|of| put(&mut dirs, of));
        assert_eq!(nearest(&mut dirs, "a/x/y/z"), Some(1));
        // The cache holds eight: the least recently used ones are closed.
        put(&mut dirs, "a/x");
        assert_eq!((nearest(&mut dirs, "a/q"), nearest(&mut dirs, "b")), (Some(1), Some(0)));
    }
}
