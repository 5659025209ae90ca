//! The hashes of all folders on the way to a path, cheaply where paths come that share most of it with one before.
//!
//! A path can be as deep as its length allows. Of the last few paths the steps are kept, so the next one costs a
//! comparison of bytes, and a hash for each folder that it does not share with them: in a deep tree that is one.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Paths of which the steps are kept: threads are at different places.
const WAYS: usize = 4;
/// Bytes that are compared at a time, less and less of them.
const COMPARED: [usize; 3] = [4096, 64, 1];

/// An ancestor of a path, or the path itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// How many bytes of the path it takes.
    pub(super) end: usize,
    /// Its hash, the same for every path below it. The keys are this process's own, so nobody can make two that fall
    /// together, and 128 bits do not by chance.
    pub(super) hash: u128,
}

/// The last few paths.
#[derive(Default)]
pub(super) struct Ways {
    keys: [RandomState; 2],
    ways: [Way; WAYS],
    clock: u64,
}

/// A path, and all on the way to it.
#[derive(Default)]
struct Way {
    path: Vec<u8>,
    /// The root, every folder on the way, and the path itself.
    steps: Vec<Step>,
    used: u64,
}

impl Ways {
    /// The root, every folder on the way, and `path` itself: one at least.
    pub(super) fn steps(&mut self, path: &[u8]) -> &[Step] {
        let (mut at, mut same) = (0, 0);
        for (number, way) in self.ways.iter().enumerate() {
            let shared = shared(&way.path, path);
            if shared >= same {
                (at, same) = (number, shared);
            }
        }
        let way = &self.ways[at];
        let mut count = way.steps.partition_point(|step| step.end <= same);
        let ends_name = |end: usize| end == 0 || path.get(end).is_none_or(|byte| *byte == b'/');
        if count > 0 && !ends_name(way.steps[count - 1].end) {
            // Its last name only begins as one of the path does.
            count -= 1;
        }
        if count == 0 || way.steps[count - 1].end != path.len() {
            // What has little in common with all of them takes the place of the one that was not used for longest.
            let oldest = (0..WAYS).min_by_key(|number| self.ways[*number].used).unwrap_or(at);
            if same < path.len() / 2 && oldest != at {
                let known = self.ways[at].steps[..count].to_vec();
                self.ways[oldest].steps = known;
                at = oldest;
            }
            let way = &mut self.ways[at];
            way.steps.truncate(count);
            way.go_on(path, &self.keys);
            count = way.steps.len();
        }
        self.clock += 1;
        let way = &mut self.ways[at];
        way.used = self.clock;
        &way.steps[..count]
    }
}

impl Way {
    /// Goes on from the last known step to `path`.
    fn go_on(&mut self, path: &[u8], keys: &[RandomState; 2]) {
        let hash = |before: u128, name: &[u8]| {
            let half = |keys: &RandomState| {
                let mut hasher = keys.build_hasher();
                hasher.write_u128(before);
                hasher.write(name);
                hasher.finish()
            };
            u128::from(half(&keys[0])) << 64 | u128::from(half(&keys[1]))
        };
        let mut last = *self.steps.last().unwrap_or(&Step { end: 0, hash: hash(0, b"") });
        if self.steps.is_empty() {
            self.steps.push(last);
        }
        for name in path[last.end..].split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            // The slash that follows the one before.
            let end = last.end + usize::from(last.end > 0) + name.len();
            last = Step { end, hash: hash(last.hash, name) };
            self.steps.push(last);
        }
        self.path.clear();
        self.path.extend_from_slice(path);
    }
}

/// How many bytes both begin with.
fn shared(one: &[u8], other: &[u8]) -> usize {
    let mut at = 0;
    for block in COMPARED {
        while let Some(next) = one.get(at..at + block)
            && other.get(at..at + block) == Some(next)
        {
            at += block;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_other_paths_changes_no_hash() {
        let mut kept = Ways::default();
        let deep = "long/".repeat(3000);
        let paths = [
            "",
            "a",
            "a/b",
            "a/bc",
            "a/b/c",
            "ab",
            "a",
            "b/c/d",
            "x",
            "y/z",
            "v/w",
            "a/b/c/d/e",
            "",
            "a/bcd/e",
        ];
        let mut paths: Vec<String> = paths.map(str::to_owned).to_vec();
        for name in ["a", "ab", "b", "a/c", "a", "lo"] {
            paths.extend([format!("{deep}{name}"), format!("{}{name}", &deep[..deep.len() / 2])]);
        }
        for path in &paths {
            let mut new = Ways { keys: kept.keys.clone(), ..Ways::default() };
            let steps = kept.steps(path.as_bytes()).to_vec();
            assert_eq!(steps, new.steps(path.as_bytes()), "{path}");
            let names = path.split('/').filter(|name| !name.is_empty()).count();
            assert_eq!((steps.len(), steps[names].end), (names + 1, path.len()), "{path}");
        }
        let mut last: Vec<u128> =
            paths.iter().map(|path| kept.steps(path.as_bytes()).last().unwrap().hash).collect();
        (last, paths) = (last, paths);
        last.sort_unstable();
        last.dedup();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(last.len(), paths.len());
    }
}
