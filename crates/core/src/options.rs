//! What the two ends are told to do. These travel to the remote end as they are.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::delta::Delta;
use crate::entry::{Entry, Timestamp};
use crate::filter::Rule;
use crate::path::RelPath;

/// What a scan looks at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct ScanOptions {
    /// Where to begin; empty means the root. Directories above a start are listed too, as they must exist.
    pub starts: Vec<RelPath>,
    /// Include and exclude rules, first match wins.
    pub rules: Vec<Rule>,
    /// Leave out files of fewer bytes.
    pub min_size: Option<u64>,
    /// Leave out files of more bytes.
    pub max_size: Option<u64>,
    /// Do not cross into other file systems (`-x`).
    pub one_file_system: bool,
    /// Look up owner and group names (`--owner-by-name`).
    pub owner_names: bool,
    /// Tell the paths that the rules leave out ([`crate::ScanBatch::left_out`]).
    pub tells_left_out: bool,
}

impl ScanOptions {
    /// Whether it is a file of a size that is left out.
    #[must_use]
    pub fn is_wrong_size(&self, entry: &Entry) -> bool {
        entry.is_file()
            && (self.min_size.is_some_and(|min| entry.len < min)
                || self.max_size.is_some_and(|max| entry.len > max))
    }

    /// The same from the root, with files of all sizes.
    #[must_use]
    pub fn whole_tree(&self) -> Self {
        Self { starts: Vec::new(), min_size: None, max_size: None, ..self.clone() }
    }

    /// The directories above the starts that are no starts themselves, in order.
    #[must_use]
    pub fn above_starts(&self) -> Vec<RelPath> {
        let starts: BTreeSet<&RelPath> = self.starts.iter().collect();
        let mut above = BTreeSet::new();
        for start in &starts {
            let mut at = start.parent();
            while let Some(path) = at {
                at = path.parent();
                above.insert(path);
            }
        }
        above.into_iter().filter(|path| !starts.contains(path)).collect()
    }
}

/// When a file at the destination counts as the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum Compare {
    /// Same size and modification time, to the nanosecond.
    #[default]
    SizeAndTime,
    /// Same size.
    SizeOnly,
    /// Same size and BLAKE3 digest.
    Checksum,
}

/// What a sink does with what it is offered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkOptions {
    /// When a file counts as the same.
    pub compare: Compare,
    /// Leave alone what exists, whatever it is (`--ignore-existing`).
    pub ignore_existing: bool,
    /// Make nothing new (`--existing`).
    pub existing: bool,
    /// Leave alone what is newer at the destination (`--update`).
    pub update: bool,
    /// Modification times that differ by at most so many seconds are the same (`--modify-window`); below 0 they have to
    /// be equal. `None`: they are compared as precisely as the destination keeps them.
    pub modify_window: Option<i64>,
    /// Change nothing; answer as if (`-n`).
    pub dry_run: bool,
    /// Sync data before it is recorded as done; off with `--no-fsync`.
    pub durable: bool,
    /// Read back what an interrupted run has left of a large file; off with `--no-recheck`.
    pub recheck: bool,
    /// Read back what was written, past the page cache, before it is committed (`--verify disk`).
    pub verify_disk: bool,
    /// Map owners by name where the source gave names (`--owner-by-name`).
    pub owner_by_name: bool,
    /// Give every file its name by renaming it when it is complete, also where that costs round trips (`--atomic`).
    pub atomic: bool,
    /// When files that are there are compared by pages with what is to replace them (`--delta`).
    pub delta: Delta,
    /// Change large files that are there where they are, instead of replacing them (`--inplace`).
    pub in_place: bool,
}

impl SinkOptions {
    /// Whether two modification times count as the same where the destination keeps both.
    #[must_use]
    pub fn is_same_time(&self, one: Timestamp, other: Timestamp) -> bool {
        one.is_within(self.modify_window.unwrap_or(-1), other)
    }
}

impl Default for SinkOptions {
    fn default() -> Self {
        Self {
            compare: Compare::SizeAndTime,
            ignore_existing: false,
            existing: false,
            update: false,
            modify_window: None,
            dry_run: false,
            durable: true,
            recheck: true,
            verify_disk: false,
            owner_by_name: false,
            atomic: false,
            delta: Delta::Never,
            in_place: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_counts_whole_seconds() {
        let time = |sec, nsec| Timestamp { sec, nsec };
        let same = |modify_window, one, other| {
            SinkOptions { modify_window, ..SinkOptions::default() }.is_same_time(one, other)
        };
        assert!(same(Some(0), time(5, 1), time(5, 999)));
        assert!(!same(Some(0), time(5, 0), time(6, 0)));
        assert!(same(Some(2), time(5, 0), time(7, 9)));
        assert!(same(Some(2), time(-1, 0), time(1, 0)));
        assert!(!same(Some(-1), time(5, 1), time(5, 2)));
        assert!(!same(None, time(5, 1), time(5, 2)));
    }
}
