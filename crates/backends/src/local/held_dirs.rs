//! Directory handles that are kept open, found by the longest part of a path that one is held for.
//!
//! A path can be as deep as its length allows, so nothing here costs more than one pass over it: the hash of every
//! ancestor comes from that pass, and long paths are not kept.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use haul_core::RelPath;

use super::root::Dir;

/// A longer path is not kept: of it, the hash alone is known.
const SHORT: usize = 512;

/// An ancestor of a path, or the path itself.
#[derive(Clone, Copy)]
pub(super) struct Step {
    /// How many bytes of the path it takes.
    pub(super) end: usize,
    /// Its hash, the same for every path below it. The keys are this process's own, so nobody can make two that fall
    /// together, and 128 bits do not by chance.
    pub(super) hash: u128,
}

struct Held {
    dir: Arc<Dir>,
    len: usize,
    /// Its path, if that is short.
    path: Option<RelPath>,
    used: u64,
}

/// The held directories; those that were not used for longest go.
pub(super) struct HeldDirs {
    keys: [RandomState; 2],
    held: HashMap<u128, Held>,
    clock: u64,
    cap: usize,
}

impl HeldDirs {
    pub(super) fn new(cap: usize) -> Self {
        Self { keys: [RandomState::new(), RandomState::new()], held: HashMap::new(), clock: 0, cap }
    }

    pub(super) fn resize(&mut self, cap: usize) {
        self.cap = cap;
    }

    /// The root, every folder on the way, and `path` itself.
    pub(super) fn steps(&self, path: &RelPath) -> Vec<Step> {
        let [mut one, mut two] = self.keys.each_ref().map(RandomState::build_hasher);
        let mut both = |name: &[u8]| {
            one.write_usize(name.len());
            one.write(name);
            two.write_usize(name.len());
            two.write(name);
            u128::from(one.finish()) << 64 | u128::from(two.finish())
        };
        let mut steps = vec![Step { end: 0, hash: both(b"") }];
        let mut end = 0;
        for name in path.components() {
            // The slash that follows the one before.
            end += usize::from(end > 0) + name.len();
            steps.push(Step { end, hash: both(name) });
        }
        steps
    }

    /// The directory that is held for this ancestor of a path.
    pub(super) fn get(&mut self, step: Step) -> Option<Arc<Dir>> {
        self.clock += 1;
        let held = self.held.get_mut(&step.hash)?;
        held.used = self.clock;
        Some(held.dir.clone())
    }

    /// The innermost of these ancestors that is held, and its place among them.
    pub(super) fn nearest(&mut self, steps: &[Step]) -> Option<(usize, Arc<Dir>)> {
        let found = steps.iter().enumerate().rev().find_map(|(at, step)| Some((at, self.get(*step)?)))?;
        if found.0 + 2 < steps.len() {
            // There is a way to go. What is held farther up is what the next such way begins at: it stays.
            for step in &steps[..found.0] {
                self.get(*step);
            }
        }
        Some(found)
    }

    pub(super) fn put(&mut self, path: &RelPath, step: Step, dir: Arc<Dir>) {
        if self.held.len() >= self.cap {
            let mut ages: Vec<u64> = self.held.values().map(|held| held.used).collect();
            let middle = ages.len() / 2;
            let (_, median, _) = ages.select_nth_unstable(middle);
            let median = *median;
            self.held.retain(|_, held| held.used > median);
        }
        self.clock += 1;
        let path = if step.end <= SHORT { path.ancestor(step.end) } else { None };
        self.held.insert(step.hash, Held { dir, len: step.end, path, used: self.clock });
    }

    /// Forgets directories at and below `path`; of those with a long path, all that can be below it.
    pub(super) fn forget(&mut self, path: &RelPath) {
        let gone = path.as_bytes();
        self.held.retain(|_, held| match &held.path {
            Some(path) => {
                let rest = path.as_bytes().strip_prefix(gone);
                !(gone.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/'))
            }
            None => held.len < gone.len(),
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

    fn path(of: &str) -> RelPath {
        RelPath::new(of.as_bytes()).unwrap()
    }

    fn put(dirs: &mut HeldDirs, of: &str) {
        let at = path(of);
        let step = *dirs.steps(&at).last().unwrap();
        dirs.put(&at, step, dir());
    }

    fn nearest(dirs: &mut HeldDirs, of: &str) -> Option<usize> {
        let steps = dirs.steps(&path(of));
        dirs.nearest(&steps).map(|(at, _)| steps[at].end)
    }

    #[test]
    fn finds_the_innermost_that_is_held() {
        let mut dirs = HeldDirs::new(8);
        ["", "a", "a/b", "a/bc", "ab"].iter().for_each(|of| put(&mut dirs, of));
        assert_eq!(nearest(&mut dirs, "a/b/c/d"), Some(3));
        assert_eq!(nearest(&mut dirs, "a/bcd"), Some(1));
        assert_eq!(nearest(&mut dirs, "x"), Some(0));
        dirs.forget(&path("a/b"));
        assert_eq!(nearest(&mut dirs, "a/b/c/d"), Some(1));
        assert_eq!(nearest(&mut dirs, "a/bc"), Some(4));
        dirs.forget(&path(""));
        assert!(nearest(&mut dirs, "a").is_none());
    }

    #[test]
    fn long_paths_are_forgotten_with_what_they_are_below() {
        let mut dirs = HeldDirs::new(8);
        let long = "x/".repeat(2 * SHORT) + "x";
        let below = format!("{long}/y");
        for of in ["x", &long, &below] {
            put(&mut dirs, of);
        }
        assert_eq!(nearest(&mut dirs, &below), Some(below.len()));
        dirs.forget(&path(&below));
        assert_eq!(nearest(&mut dirs, &below), Some(long.len()));
        dirs.forget(&path("x/x"));
        assert_eq!(nearest(&mut dirs, &below), Some(1));
    }

    #[test]
    fn the_way_to_what_was_found_is_kept() {
        let mut dirs = HeldDirs::new(8);
        ["", "a", "b", "c", "d", "e", "f", "g"].iter().for_each(|of| put(&mut dirs, of));
        assert_eq!(nearest(&mut dirs, "a/x/y/z"), Some(1));
        // There is room for eight: those that were not used for longest make it.
        put(&mut dirs, "a/x");
        assert_eq!((nearest(&mut dirs, "a/q"), nearest(&mut dirs, "b")), (Some(1), Some(0)));
    }
}
