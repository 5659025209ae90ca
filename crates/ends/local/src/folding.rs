//! Names on file systems that do not tell upper case from lower case.
//!
//! There an entry is found under a name that the file system does not list, and two entries may be one. Whether a
//! folder is like that is tried with the first name in it that is there: under the same name in the other case there
//! is the same file, or one that is not listed, or there is none. What this run has written or found to be right is
//! remembered there, so that the second of two such names is refused, and none of them is removed under the other's
//! name.

use haul_core::sync::Mutex;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

use haul_core::{ErrorKind, RelPath, Result};
use rustix::fs::{Mode, OFlags, Statx};
use rustix::io::Errno;

use super::root::{At, Root};
use super::stat;

/// What is known of such names.
#[derive(Default)]
pub(super) struct Folding {
    /// Of folders that this run has made, which are all alike, and of all folders of a network file system.
    common: OnceLock<bool>,
    /// By the hash of a path without its case, that of the path that has it: 16 bytes for each entry, on such file
    /// systems only.
    taken: Mutex<HashMap<u64, u64>>,
}

impl Folding {
    /// Whether the folder of `at` does not tell case apart; told from what is at `at`, whose plain metadata is `now`.
    fn folds(&self, root: &Root, at: &At, now: &Statx) -> bool {
        let known = if at.dir.fresh || root.is_network_fs() { &self.common } else { &at.dir.folds };
        if let Some(folds) = known.get() {
            return *folds;
        }
        tried(at, now).is_some_and(|folds| *known.get_or_init(|| folds))
    }

    /// Takes a name for the entry at `path`; at `at`, in the same folder, is that entry or what is to become it. Fails if
    /// another entry has the name in another case.
    pub(super) fn take(&self, root: &Root, at: &At, now: &Statx, path: &RelPath) -> Result<()> {
        if !self.folds(root, at, now) {
            return Ok(());
        }
        let (folded, exact) = hashes(path);
        let mut taken = self.taken.lock();
        if *taken.entry(folded).or_insert(exact) == exact {
            return Ok(());
        }
        let cause = "the file system does not tell upper from lower case, and another name of the source \
                     differs from this one in nothing else";
        let error = root.fault(ErrorKind::Unsupported, "write", path, cause);
        Err(error.with_hint("rename one of the two at the source"))
    }

    /// Whether the name stands for an entry of this run in another case.
    pub(super) fn is_other(&self, root: &Root, at: &At, now: &Statx, path: &RelPath) -> bool {
        if !self.folds(root, at, now) {
            return false;
        }
        let (folded, exact) = hashes(path);
        let taken = self.taken.lock();
        taken.get(&folded).is_some_and(|taken| *taken != exact)
    }
}

/// Whether what is at `at` is found under the same name in the other case too. `None` where that tells nothing.
fn tried(at: &At, now: &Statx) -> Option<bool> {
    let is_dir = stat::is_dir(now);
    let other = other_case(&at.name);
    // Two names of one file may differ in case on every file system.
    if other == at.name || !is_dir && now.stx_nlink != 1 {
        return None;
    }
    let other = at.sibling(&other);
    match stat::statx(&other) {
        Ok(found) if stat::inode(&found) == stat::inode(now) => Some(true),
        // Two files, which the folder lists both; or one, where inode numbers are made up from names.
        Ok(_) if lists_both(at, &other)? => Some(false),
        Ok(_) => (stat::statx(&other).is_ok() && stat::statx(at).is_ok()).then_some(true),
        // If it is gone itself, that tells nothing.
        Err(Errno::NOENT) => stat::statx(at).is_ok().then_some(false),
        Err(_) => None,
    }
}

/// Whether their folder lists both. `None` if it cannot be read.
fn lists_both(one: &At, other: &At) -> Option<bool> {
    let opened = one.sibling(b".").open(OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let mut found = [false; 2];
    for entry in rustix::fs::Dir::read_from(&opened).ok()? {
        let entry = entry.ok()?;
        for (at, found) in [one, other].into_iter().zip(&mut found) {
            *found |= entry.file_name().to_bytes() == at.name;
        }
    }
    Some(found == [true; 2])
}

fn other_case(name: &[u8]) -> Vec<u8> {
    let swap = |byte: &u8| {
        if byte.is_ascii_lowercase() { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() }
    };
    name.iter().map(swap).collect()
}

/// The hash of the path without its case, and of the path.
fn hashes(path: &RelPath) -> (u64, u64) {
    let hash = |bytes: &[u8]| {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        hasher.finish()
    };
    let bytes = path.as_bytes();
    let folded = match std::str::from_utf8(bytes) {
        Ok(text) => text.chars().map(upper).collect::<String>().into_bytes(),
        Err(_) => bytes.to_ascii_uppercase(),
    };
    (hash(&folded), hash(bytes))
}

/// A letter's upper case, if that is one letter too, as file systems have it.
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
    fn paths_that_differ_in_case_only_have_one_hash() {
        let of = |text: &str| hashes(&RelPath::new(text.as_bytes()).unwrap());
        for (one, other) in [("a/B", "A/b"), ("\u{fc}", "\u{dc}")] {
            assert_eq!(of(one).0, of(other).0, "{one}");
            assert_ne!(of(one).1, of(other).1, "{one}");
        }
        assert_ne!(of("a").0, of("b").0);
        assert_ne!(of("stra\u{df}e").0, of("strasse").0);
        assert_eq!(other_case(b"aB-1\xff"), b"Ab-1\xff");
    }
}
