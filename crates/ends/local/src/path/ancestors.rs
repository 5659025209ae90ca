//! The hashes of all ancestors of a path, cheap for a path that shares most of them with an earlier one.
//!
//! A path can be as deep as its length allows. The ancestors of the last few paths are kept, so the next path costs a
//! comparison of bytes, and a hash for each directory that it does not share: in a deep tree that is one.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Paths whose ancestors are kept: several threads work at different places.
const PATHS: usize = 4;
/// Bytes that are compared at a time, in decreasing blocks.
const COMPARED: [usize; 3] = [4096, 64, 1];

/// An ancestor of a path, or the path itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ancestor {
    /// The number of bytes of the path up to its end.
    pub(crate) end: usize,
    /// Its hash, the same for every path below it. The keys are random for each process, so nobody can construct a
    /// collision, and with 128 bits none happens by chance.
    pub(crate) hash: u128,
}

/// The last few paths with the hashes of their ancestors.
#[derive(Default)]
pub(crate) struct AncestorHashes {
    keys: [RandomState; 2],
    paths: [KnownPath; PATHS],
    clock: u64,
}

/// A path and its ancestors.
#[derive(Default)]
struct KnownPath {
    path: Vec<u8>,
    /// The root, every directory on the way, and the path itself.
    steps: Vec<Ancestor>,
    used: u64,
}

impl AncestorHashes {
    /// The root, every directory on the way, and `path` itself: at least one.
    pub(crate) fn of(&mut self, path: &[u8]) -> &[Ancestor] {
        let (mut at, mut same) = (0, 0);
        for (number, known) in self.paths.iter().enumerate() {
            let shared = shared(&known.path, path);
            if shared >= same {
                (at, same) = (number, shared);
            }
        }
        let known = &self.paths[at];
        let mut count = known.steps.partition_point(|step| step.end <= same);
        let ends_name = |end: usize| end == 0 || path.get(end).is_none_or(|byte| *byte == b'/');
        if count > 0 && !ends_name(known.steps[count - 1].end) {
            // The last common name is only the beginning of a name of the path.
            count -= 1;
        }
        if count == 0 || known.steps[count - 1].end != path.len() {
            // A path that has little in common with all of them replaces the least recently used one.
            let oldest = (0..PATHS).min_by_key(|number| self.paths[*number].used).unwrap_or(at);
            if same < path.len() / 2 && oldest != at {
                let common = self.paths[at].steps[..count].to_vec();
                self.paths[oldest].steps = common;
                at = oldest;
            }
            let known = &mut self.paths[at];
            known.steps.truncate(count);
            known.extend_to(path, &self.keys);
            count = known.steps.len();
        }
        self.clock += 1;
        let known = &mut self.paths[at];
        known.used = self.clock;
        &known.steps[..count]
    }
}

impl KnownPath {
    /// Adds the ancestors from the last known one to `path`.
    fn extend_to(&mut self, path: &[u8], keys: &[RandomState; 2]) {
        let hash = |before: u128, name: &[u8]| {
            let half = |keys: &RandomState| {
                let mut hasher = keys.build_hasher();
                hasher.write_u128(before);
                hasher.write(name);
                hasher.finish()
            };
            u128::from(half(&keys[0])) << 64 | u128::from(half(&keys[1]))
        };
        let mut last = *self.steps.last().unwrap_or(&Ancestor { end: 0, hash: hash(0, b"") });
        if self.steps.is_empty() {
            self.steps.push(last);
        }
        for name in path[last.end..].split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            // A slash follows each name but the root.
            let end = last.end + usize::from(last.end > 0) + name.len();
            last = Ancestor { end, hash: hash(last.hash, name) };
            self.steps.push(last);
        }
        self.path.clear();
        self.path.extend_from_slice(path);
    }
}

/// The length of the common beginning.
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
    fn kept_paths_change_no_hash() {
        let mut kept = AncestorHashes::default();
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
            let mut new = AncestorHashes { keys: kept.keys.clone(), ..AncestorHashes::default() };
            let steps = kept.of(path.as_bytes()).to_vec();
            assert_eq!(steps, new.of(path.as_bytes()), "{path}");
            let names = path.split('/').filter(|name| !name.is_empty()).count();
            assert_eq!((steps.len(), steps[names].end), (names + 1, path.len()), "{path}");
        }
        let mut last: Vec<u128> =
            paths.iter().map(|path| kept.of(path.as_bytes()).last().unwrap().hash).collect();
        (last, paths) = (last, paths);
        last.sort_unstable();
        last.dedup();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(last.len(), paths.len());
    }
}
