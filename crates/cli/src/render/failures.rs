//! Failures: counted, grouped by cause in bounded memory, and written to `--failed FILE`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use haul_core::{Error, ErrorKind};

use super::failure_group::{FailureGroup, cause_of};
use super::refused::RefusedDirs;
use crate::settings::listed;

/// Failures shown at once: per cause, and in total.
const LIVE_OF_CAUSE: u64 = 3;
const LIVE: u64 = 20;
/// Number of distinct causes; further ones form one group.
const CAUSES: usize = 100;

/// All failures of a run.
#[derive(Default)]
pub(crate) struct Failures {
    groups: Vec<FailureGroup>,
    /// Failures that are shown at the end alone.
    refused: RefusedDirs,
    count: u64,
    live: u64,
    list: Option<FailedList>,
}

/// The file of `--failed`.
struct FailedList {
    out: BufWriter<File>,
    nul: bool,
    failure: Option<String>,
}

impl Failures {
    /// Also writes each name to `path`, ended by NUL or newline.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub(crate) fn with_list(path: &Path, nul: bool) -> io::Result<Self> {
        let list = FailedList { out: BufWriter::new(File::create(path)?), nul, failure: None };
        Ok(Self { list: Some(list), ..Self::default() })
    }

    /// Records a failure. Returns whether to show it at once.
    pub(crate) fn add(&mut self, name: &[u8], error: &Error) -> bool {
        self.count += 1;
        if let Some(list) = &mut self.list {
            list.add(name);
        }
        if self.refused.add(name, error) {
            return false;
        }
        let cause = cause_of(error);
        let full = self.groups.len() >= CAUSES;
        let found = self.groups.iter_mut().find(|group| group.cause == cause);
        let of_cause = match found {
            Some(group) => group.add(name),
            None if full => {
                let other = "other causes";
                match self.groups.iter_mut().find(|group| group.cause == other) {
                    Some(group) => group.add(name),
                    None => self.begin(FailureGroup::new(other.to_owned(), error, name)),
                }
            }
            None => self.begin(FailureGroup::new(cause, error, name)),
        };
        let live = of_cause <= LIVE_OF_CAUSE && self.live < LIVE;
        self.live += u64::from(live);
        live
    }

    /// Starts a group. Returns its size.
    fn begin(&mut self, group: FailureGroup) -> u64 {
        self.groups.push(group);
        1
    }

    /// The number of failures.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The number of failures that were not shown at once, of those that are shown one by one.
    pub(crate) fn unseen(&self) -> u64 {
        self.count - self.live - self.refused.count()
    }

    /// The groups, the largest first.
    pub(crate) fn groups(&self) -> Vec<FailureGroup> {
        let mut groups = self.groups.clone();
        groups.append(&mut self.refused.groups());
        groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        groups
    }

    /// Whether anything failed because the destination is full.
    pub(crate) fn is_full(&self) -> bool {
        self.groups.iter().any(|group| group.kind == ErrorKind::NoSpace)
    }

    /// Completes the list. `Err` is the reason why it is incomplete.
    pub(crate) fn finish_list(&mut self) -> Result<(), String> {
        let Some(mut list) = self.list.take() else { return Ok(()) };
        if let Err(error) = list.out.flush() {
            list.failure.get_or_insert(error.to_string());
        }
        list.failure.map_or(Ok(()), Err)
    }
}

impl FailedList {
    fn add(&mut self, name: &[u8]) {
        match listed(name, self.nul) {
            None => {
                let text = "it lacks names with a newline: use -0";
                self.failure.get_or_insert(text.to_owned());
            }
            Some(record) => {
                if let Err(error) = self.out.write_all(&record) {
                    self.failure.get_or_insert(error.to_string());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::Side;

    fn error(cause: &str) -> Error {
        Error::new(ErrorKind::Io, Side::Source, "read", cause).on("some/name")
    }

    #[test]
    fn failures_are_grouped_by_cause() {
        let mut failures = Failures::default();
        let mut live = 0;
        for at in 0..10_000 {
            let cause = if at % 3 == 0 { "rare" } else { "common" };
            live += u32::from(failures.add(format!("n{at}").as_bytes(), &error(cause)));
        }
        assert_eq!((live, failures.count(), failures.unseen()), (6, 10_000, 9_994));
        let groups = failures.groups();
        assert_eq!(groups.len(), 2);
        assert_eq!(groups[0].cause, "failed to read (source): common");
        assert_eq!((groups[0].count, groups[1].count), (6_666, 3_334));
        assert_eq!(groups[1].names.len(), 10);
        assert_eq!(groups[1].names[1], b"n3");
        assert!(!failures.is_full());
    }

    #[test]
    fn many_causes_take_bounded_memory() {
        let mut failures = Failures::default();
        for at in 0..5_000 {
            let live = failures.add(b"x", &error(&format!("cause {at}")));
            assert_eq!(live, at < LIVE);
        }
        assert_eq!(failures.groups().len(), CAUSES + 1);
        assert_eq!(failures.groups()[0].cause, "other causes");
    }

    #[test]
    fn the_list_has_the_format_of_files_from() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("failed");
        let mut failures = Failures::with_list(&path, false).unwrap();
        failures.add(b"a", &error("x"));
        failures.add(b"b\nc", &error("x"));
        assert!(failures.finish_list().is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"a\n");
    }
}
