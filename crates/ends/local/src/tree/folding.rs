//! Names on file systems that ignore case.
//!
//! There a file is also found under names that the file system does not list, and two entries of the source may become
//! one file. Whether a directory ignores case is tried with the first existing name in it: a lookup of the name in the
//! other case finds the same file, an unlisted file, or nothing. In such directories the names that this run has
//! written or found up to date are reserved. The second of two names that differ in case only is refused, and neither
//! is removed under the name of the other.

use std::sync::OnceLock;

use haul_core::{ErrorKind, RelPath, Result};
use haul_ends::folded_names::FoldedNames;
use rustix::fs::{Mode, OFlags, Statx};
use rustix::io::Errno;

use crate::path::at::At;
use crate::path::root::Root;
use crate::path::stat;

/// The reserved names of a run.
pub(crate) struct Folding {
    is_network_fs: bool,
    /// One answer for all directories that this run has made, and for all directories of a network file system.
    common: OnceLock<bool>,
    /// Only for directories that ignore case.
    reserved: FoldedNames,
}

impl Folding {
    pub(crate) fn new(is_network_fs: bool) -> Self {
        Self { is_network_fs, common: OnceLock::new(), reserved: FoldedNames::default() }
    }

    /// Whether the directory of `at` ignores case, tried with the file at `at`, whose plain metadata is `now`.
    fn folds(&self, at: &At, now: &Statx) -> bool {
        let known = if at.dir.fresh || self.is_network_fs { &self.common } else { &at.dir.facts.folds };
        if let Some(folds) = known.get() {
            return *folds;
        }
        try_other_case(at, now).is_some_and(|folds| *known.get_or_init(|| folds))
    }

    /// Reserves the name of the entry at `path`. At `at`, in the same directory, is that entry or its staged file.
    ///
    /// # Errors
    /// `Unsupported` if another entry has the name in another case.
    pub(crate) fn reserve(&self, root: &Root, at: &At, now: &Statx, path: &RelPath) -> Result<()> {
        if !self.folds(at, now) || self.reserved.take(path) {
            return Ok(());
        }
        let cause = "the file system does not tell upper from lower case, and another name of the source \
                     differs from this one in nothing else";
        let error = root.fault(ErrorKind::Unsupported, "write", path, cause);
        Err(error.with_hint("rename one of the two at the source"))
    }

    /// Whether the name belongs to another entry of this run, in another case.
    pub(crate) fn is_other(&self, at: &At, now: &Statx, path: &RelPath) -> bool {
        self.folds(at, now) && self.reserved.is_other(path)
    }
}

/// Whether the file at `at` is also found under its name in the other case. `None` if that proves nothing.
fn try_other_case(at: &At, now: &Statx) -> Option<bool> {
    let is_dir = stat::is_dir(now);
    let other = other_case(&at.name);
    // Two names of one file may differ in case on every file system.
    if other == at.name || !is_dir && now.stx_nlink != 1 {
        return None;
    }
    let other = at.sibling(&other);
    match stat::statx(&other) {
        Ok(found) if stat::inode(&found) == stat::inode(now) => Some(true),
        // Two files if the directory lists both names, else one: some file systems make up inode numbers from names.
        Ok(_) if lists_both(at, &other)? => Some(false),
        Ok(_) => (stat::statx(&other).is_ok() && stat::statx(at).is_ok()).then_some(true),
        // If the file itself is gone, the answer proves nothing.
        Err(Errno::NOENT) => stat::statx(at).is_ok().then_some(false),
        Err(_) => None,
    }
}

/// Whether the directory lists both names. `None` if it cannot be read.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_case_is_that_of_ascii() {
        assert_eq!(other_case(b"aB-1\xff"), b"Ab-1\xff");
    }

    fn root(dir: &std::path::Path) -> Root {
        let base = crate::path::place::RootEntry::new(dir, b".");
        Root::new(base, haul_core::Side::Destination, std::sync::Arc::default())
    }

    #[test]
    fn the_second_of_two_names_is_refused_where_case_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "").unwrap();
        let root = root(dir.path());
        let path = |text: &str| RelPath::new(text.as_bytes()).unwrap();
        let at = root.at(&path("a")).unwrap();
        let now = stat::statx(&at).unwrap();
        for folds in [false, true] {
            let folding = Folding::new(true);
            folding.common.set(folds).unwrap();
            folding.reserve(&root, &at, &now, &path("a")).unwrap();
            folding.reserve(&root, &at, &now, &path("a")).unwrap();
            let second = folding.reserve(&root, &at, &now, &path("A"));
            assert_eq!(second.err().map(|error| error.kind()), folds.then_some(ErrorKind::Unsupported));
            assert_eq!(folding.is_other(&at, &now, &path("A")), folds);
            assert!(!folding.is_other(&at, &now, &path("a")) && !folding.is_other(&at, &now, &path("b")));
        }
    }

    #[test]
    fn a_file_system_with_case_is_recognized() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "A", "b", "1", "c"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        std::fs::hard_link(dir.path().join("c"), dir.path().join("C")).unwrap();
        let root = root(dir.path());
        let tried = |name: &[u8]| {
            let at = root.at(&RelPath::new(name).unwrap()).unwrap();
            try_other_case(&at, &stat::statx(&at).unwrap())
        };
        assert_eq!(tried(b"b"), Some(false), "the other name is missing");
        assert_eq!(tried(b"a"), Some(false), "the directory lists both names");
        assert_eq!(tried(b"1"), None, "the name has no case");
        assert_eq!(tried(b"c"), None, "the file has two names");
    }
}
