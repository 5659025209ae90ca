//! Directories at the destination that refuse their entries: one cause for each directory, however many entries fail.

use std::collections::BTreeMap;

use haul_core::path::printable;
use haul_core::{Error, ErrorKind, Side};

use super::failure_group::{FailureGroup, side_of};

/// Number of directories told apart; the entries of further ones form one group.
const DIRS: usize = 100;
/// Names kept of entries that could not be created.
const MISSING: usize = 10_000;

/// The action that failed on the entries of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotDone {
    Copied,
    Removed,
}

/// A directory that refuses its entries.
struct RefusedDir {
    /// The directory; `None`: any other one.
    dir: Option<Vec<u8>>,
    not_done: NotDone,
    /// The cause of the system, and the side.
    why: String,
    kind: ErrorKind,
    hint: Option<String>,
    count: u64,
    names: Vec<Vec<u8>>,
    /// The first error.
    first: String,
}

/// All directories that refuse entries, in bounded memory.
#[derive(Default)]
pub(super) struct RefusedDirs {
    dirs: Vec<RefusedDir>,
    /// Entries that could not be created, and why: everything below them fails for the same reason.
    missing: BTreeMap<Vec<u8>, String>,
    count: u64,
}

impl RefusedDirs {
    /// Records a failure. Returns whether a directory refused the entry.
    pub(super) fn add(&mut self, name: &[u8], error: &Error) -> bool {
        let mut why = format!("{}: {}", side_of(error), error.cause());
        let not_done = match refused(error) {
            Some(not_done) => not_done,
            // A server says of an entry of a missing directory that it does not exist.
            None if error.side() == Side::Destination && error.kind() == ErrorKind::NotFound => {
                let Some((_, above)) = self.first_missing(parent(error.subject(), name)) else {
                    return false;
                };
                why.clone_from(above);
                NotDone::Copied
            }
            None => return false,
        };
        self.count += 1;
        if error.operation() == "make" && self.missing.len() < MISSING {
            self.missing.insert(error.subject().to_vec(), why.clone());
        }
        let dir = self.refusing(parent(error.subject(), name));
        let first = RefusedDir {
            dir: Some(dir),
            not_done,
            why,
            kind: error.kind(),
            hint: error.hint().map(str::to_owned),
            count: 1,
            names: vec![name.to_vec()],
            first: error.to_string(),
        };
        join(&mut self.dirs, first);
        true
    }

    /// The number of failures.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// One group for each directory.
    pub(super) fn groups(&self) -> Vec<FailureGroup> {
        let mut dirs = Vec::new();
        for one in &self.dirs {
            // It may have turned out later that the directory itself could not be created.
            let dir = one.dir.as_ref().map(|dir| self.refusing(dir));
            let RefusedDir { why, hint, names, first, .. } = one;
            let (why, hint, names, first) = (why.clone(), hint.clone(), names.clone(), first.clone());
            join(&mut dirs, RefusedDir { dir, why, hint, names, first, ..*one });
        }
        dirs.into_iter().map(RefusedDir::group).collect()
    }

    /// The directory that refuses the entries of `dir`: `dir` itself, or that which refuses the first missing one of the
    /// directories on the way to it.
    fn refusing(&self, dir: &[u8]) -> Vec<u8> {
        let missing = self.first_missing(dir);
        missing.map_or(dir, |(missing, _)| parent(missing, missing)).to_vec()
    }

    /// The first of the directories on the way to `dir` that could not be created, and why.
    fn first_missing<'a>(&'a self, dir: &'a [u8]) -> Option<(&'a [u8], &'a String)> {
        let mut ends = (0..=dir.len()).filter(|end| matches!(dir.get(*end), None | Some(b'/')));
        ends.find_map(|end| Some((&dir[..end], self.missing.get(&dir[..end])?)))
    }
}

/// Adds the entries of `new` to those of the same directory.
fn join(dirs: &mut Vec<RefusedDir>, mut new: RefusedDir) {
    let is_same = |one: &RefusedDir, new: &RefusedDir| {
        one.dir == new.dir && one.not_done == new.not_done && one.why == new.why
    };
    if dirs.len() >= DIRS && !dirs.iter().any(|one| is_same(one, &new)) {
        new.dir = None;
    }
    match dirs.iter_mut().find(|one| is_same(one, &new)) {
        Some(one) => {
            one.count += new.count;
            one.names.append(&mut new.names);
            one.names.truncate(FailureGroup::NAMES);
        }
        None => dirs.push(new),
    }
}

impl RefusedDir {
    fn group(self) -> FailureGroup {
        let dir = match &self.dir {
            None => "other directories".to_owned(),
            Some(dir) if dir.is_empty() => ".".to_owned(),
            Some(dir) => printable(dir),
        };
        let (count, were) = (self.count, if self.count == 1 { "entry was" } else { "entries were" });
        let not_done = match self.not_done {
            NotDone::Copied => "copied",
            NotDone::Removed => "removed",
        };
        let count_text = super::wording::number(count);
        let line = match count {
            1 => self.first,
            _ => format!("{dir}{}: {count_text} {were} not {not_done}", self.why),
        };
        FailureGroup {
            cause: format!("{dir}{}", self.why),
            kind: self.kind,
            hint: self.hint,
            count,
            names: self.names,
            line: Some(line),
        }
    }
}

/// The action that failed, if a directory refused the entry that the error is about.
fn refused(error: &Error) -> Option<NotDone> {
    let is_refusal = matches!(error.cause(), "Permission denied" | "Read-only file system");
    if !is_refusal || error.side() != Side::Destination || error.subject().is_empty() {
        return None;
    }
    match error.operation() {
        "make" | "write" | "link" | "replace" | "clone" => Some(NotDone::Copied),
        "remove" => Some(NotDone::Removed),
        _ => None,
    }
}

/// The directory that holds `path`, the location of the entry `name`: without a slash at its end, unless it is a root.
fn parent<'a>(path: &'a [u8], name: &[u8]) -> &'a [u8] {
    let Some(slash) = path.iter().rposition(|byte| *byte == b'/') else {
        // In the working directory, or in the home directory of a host.
        return path.strip_suffix(name).unwrap_or_default();
    };
    let dir = &path[..slash];
    let is_root = dir.is_empty() || dir.ends_with(b":") || is_host(dir);
    if is_root { &path[..=slash] } else { dir }
}

/// Whether this is a URL that ends with the host.
fn is_host(path: &[u8]) -> bool {
    let host = path.windows(3).position(|three| three == b"://").map(|at| &path[at + 3..]);
    host.is_some_and(|host| !host.contains(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(operation: &str, subject: &str) -> Error {
        Error::new(ErrorKind::PermissionDenied, Side::Destination, operation, "Permission denied").on(subject)
    }

    fn lines(dirs: &RefusedDirs) -> Vec<String> {
        dirs.groups().into_iter().filter_map(|group| group.line).collect()
    }

    #[test]
    fn entries_of_a_directory_are_one_line() {
        let mut dirs = RefusedDirs::default();
        for (operation, name) in
            [("write", "a"), ("make", "d"), ("write", "d/f"), ("make", "d/e"), ("link", "d/e/l")]
        {
            assert!(dirs.add(name.as_bytes(), &error(operation, &format!("db2:/dst/{name}"))));
        }
        assert!(dirs.add(b"x/one", &error("write", "db2:/dst/x/one")));
        assert!(dirs.add(b"old", &error("remove", "db2:/dst/old")));
        assert!(dirs.add(b"older", &error("remove", "db2:/dst/older")));
        assert_eq!(dirs.count(), 8);
        assert_eq!(
            lines(&dirs),
            [
                "db2:/dst (destination): Permission denied: 5 entries were not copied",
                "failed to write `db2:/dst/x/one` (destination): Permission denied",
                "db2:/dst (destination): Permission denied: 2 entries were not removed",
            ]
        );
        assert_eq!(dirs.groups()[0].names.len(), 5);
    }

    #[test]
    fn a_directory_that_turns_out_missing_later_joins_the_one_above() {
        let mut dirs = RefusedDirs::default();
        for name in ["dst/d/e/f", "dst/d/g"] {
            dirs.add(name.as_bytes(), &error("write", name));
        }
        assert_eq!(dirs.groups().len(), 2);
        dirs.add(b"d", &error("make", "dst/d"));
        assert_eq!(lines(&dirs), ["dst (destination): Permission denied: 3 entries were not copied"]);
    }

    #[test]
    fn what_a_server_does_not_find_in_a_missing_directory_is_refused_above() {
        let gone = |name: &str| {
            let error = Error::new(ErrorKind::NotFound, Side::Destination, "make", "No such file");
            error.on(format!("dst/{name}"))
        };
        let mut dirs = RefusedDirs::default();
        assert!(!dirs.add(b"x/f", &gone("x/f")));
        dirs.add(b"d", &error("make", "dst/d"));
        for name in ["d/e", "d/e/f"] {
            assert!(dirs.add(name.as_bytes(), &gone(name)));
        }
        assert_eq!(lines(&dirs), ["dst (destination): Permission denied: 3 entries were not copied"]);
    }

    #[test]
    fn other_failures_are_none_of_a_directory() {
        let mut dirs = RefusedDirs::default();
        let source = error("write", "a/b").with_side(Side::Source);
        let full =
            Error::new(ErrorKind::NoSpace, Side::Destination, "write", "No space left on device").on("a/b");
        for other in [error("set the metadata of", "a/b"), error("make", ""), source, full] {
            assert!(!dirs.add(b"b", &other));
        }
        assert!(dirs.groups().is_empty());
    }

    #[test]
    fn many_directories_take_bounded_memory() {
        let mut dirs = RefusedDirs::default();
        for at in 0..5000 {
            dirs.add(b"f", &error("write", &format!("dst/{at}/f")));
        }
        let lines = lines(&dirs);
        assert_eq!(lines.len(), DIRS + 1);
        let rest = format!("{},{} entries", (5000 - DIRS) / 1000, (5000 - DIRS) % 1000);
        assert_eq!(
            lines[DIRS],
            format!("other directories (destination): Permission denied: {rest} were not copied")
        );
    }

    #[test]
    fn a_root_keeps_its_slash() {
        for (path, name, dir) in [
            ("/f", "f", "/"),
            ("h:/f", "f", "h:/"),
            ("sftp://u@h:22/f", "f", "sftp://u@h:22/"),
            ("h:f", "f", "h:"),
            ("a:b", "a:b", ""),
            ("sftp://h/d/f", "f", "sftp://h/d"),
        ] {
            assert_eq!(parent(path.as_bytes(), name.as_bytes()), dir.as_bytes(), "{path}");
        }
    }
}
