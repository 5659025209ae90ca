//! The options of the two ends. They are sent to a remote end unchanged.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::backup::Backup;
use crate::delta::Delta;
use crate::entry::{Entry, Timestamp};
use crate::filter::Rules;
use crate::page_checks::PageChecks;
use crate::path::RelPath;
use crate::preserve::Preserve;

/// The options of a scan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct ScanOptions {
    /// The paths to begin at; empty means the root. Directories above a start are listed too, as they must exist.
    pub starts: Vec<RelPath>,
    /// Include and exclude rules; the first matching rule decides.
    pub rules: Rules,
    /// The starts are listed even if the rules exclude them.
    pub enters_starts: bool,
    /// Exclude smaller files, in bytes.
    pub min_size: Option<u64>,
    /// Exclude larger files, in bytes.
    pub max_size: Option<u64>,
    /// Exclude entries that were modified before this time, except directories (`--max-age`).
    pub modified_from: Option<Timestamp>,
    /// Exclude entries that were modified after this time, except directories (`--min-age`).
    pub modified_until: Option<Timestamp>,
    /// List directories down to this depth only: 0 lists none, 1 the root. `None` lists all.
    pub max_depth: Option<u32>,
    /// Do not cross into other file systems (`-x`).
    pub one_file_system: bool,
    /// Look up owner and group names (`--owner-by-name`).
    pub owner_names: bool,
    /// Report the entries that the rules exclude ([`crate::ScanBatch::left_out`]).
    pub tells_left_out: bool,
}

impl ScanOptions {
    /// Whether a scan lists the directory at `path`.
    #[must_use]
    pub fn lists(&self, path: &RelPath) -> bool {
        self.max_depth.is_none_or(|most| path.components().take(most as usize).count() < most as usize)
    }

    /// Whether the entry is excluded by its size or age.
    #[must_use]
    pub fn is_wrong_size_or_age(&self, entry: &Entry) -> bool {
        let is_wrong_size = entry.is_file()
            && (self.min_size.is_some_and(|min| entry.len < min)
                || self.max_size.is_some_and(|max| entry.len > max));
        let is_wrong_age = !entry.is_dir()
            && (self.modified_from.is_some_and(|from| entry.mtime < from)
                || self.modified_until.is_some_and(|until| entry.mtime > until));
        is_wrong_size || is_wrong_age
    }

    /// Whether entries are excluded by size or age.
    #[must_use]
    pub fn limits_size_or_age(&self) -> bool {
        self.min_size.is_some()
            || self.max_size.is_some()
            || self.modified_from.is_some()
            || self.modified_until.is_some()
    }

    /// The same options for the whole tree, and for all sizes and ages.
    #[must_use]
    pub fn whole_tree(&self) -> Self {
        Self {
            starts: Vec::new(),
            min_size: None,
            max_size: None,
            modified_from: None,
            modified_until: None,
            ..self.clone()
        }
    }

    /// The same options for the destination, to find the entries that may be deleted there.
    #[must_use]
    pub fn of_destination(&self) -> Self {
        let scan = self.whole_tree();
        Self { rules: scan.rules.of_destination(), tells_left_out: true, ..scan }
    }

    /// The directories above the starts, without those that are starts themselves, in order.
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

/// How a source treats symbolic links. This is not an option of a scan, because lookups and reads must treat links in
/// the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum Links {
    /// They are entries of their own, and no path leads through them.
    #[default]
    Kept,
    /// Each is the file or directory that it points to (`--copy-links`). Only for a source: a destination follows at
    /// most links to directories ([`DirLinks`]).
    Followed,
}

/// How a source is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceOptions {
    /// How it treats symbolic links.
    pub links: Links,
    /// Which pages of database files it checks.
    pub pages: Option<PageChecks>,
    /// How it treats symbolic links to directories, if it is a destination that is compared.
    pub dirlinks: DirLinks,
}

/// How a destination that is opened as a source treats symbolic links to directories (`--keep-dirlinks`). Scans do not
/// descend into them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DirLinks {
    /// No path leads through them.
    #[default]
    Kept,
    /// Paths lead through them; each is an entry of its own.
    Entered,
    /// Paths lead through them, and each is the directory that it leads to.
    Shown,
}

impl From<Links> for SourceOptions {
    fn from(links: Links) -> Self {
        Self { links, pages: None, dirlinks: DirLinks::Kept }
    }
}

impl Links {
    /// Whether links are followed.
    #[must_use]
    pub fn are_followed(self) -> bool {
        self == Self::Followed
    }
}

/// Which files at the destination count as up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum Compare {
    /// Files of the same size and modification time, to the nanosecond.
    #[default]
    SizeAndTime,
    /// Files of the same size.
    SizeOnly,
    /// Files of the same size and BLAKE3 digest.
    Checksum,
    /// None: all files are copied again (`--ignore-times`).
    Nothing,
    /// Files of the same size, whatever they contain: the caller compares content, and the sink only metadata
    /// (`haul verify`). Requires [`SinkOptions::dry_run`] and [`SinkOptions::itemize`]. Differences that a copy could
    /// not remove, because the destination does not keep the metadata or the user may not set it there, are not among
    /// [`crate::Changes`]; [`crate::Sink::finish`] reports them.
    Metadata,
}

/// The options of a sink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkOptions {
    /// Which files count as up to date.
    pub compare: Compare,
    /// Skip entries that exist, of whatever kind (`--ignore-existing`).
    pub ignore_existing: bool,
    /// Create no new entries (`--existing`).
    pub existing: bool,
    /// Skip files that are newer at the destination (`--update`).
    pub update: bool,
    /// Modification times that differ by at most this many seconds are equal (`--modify-window`); a negative value
    /// means exactly equal. `None`: times are compared with the precision of the less precise end.
    pub modify_window: Option<i64>,
    /// The source cuts modification times to this many nanoseconds; 0: it does not.
    pub source_time_unit: u32,
    /// Change nothing, but answer as a real run (`-n`).
    pub dry_run: bool,
    /// Sync data before reporting it as done; off with `--no-fsync`.
    pub durable: bool,
    /// Verify the slices that an interrupted run has stored of a large file; off with `--no-recheck`.
    pub recheck: bool,
    /// Read written files back from disk, bypassing the page cache, before the commit (`--verify disk`).
    pub verify_disk: bool,
    /// Map owners by name if the source sent names (`--owner-by-name`).
    pub owner_by_name: bool,
    /// Write every file to a temporary file and rename it, also on network file systems (`--atomic`).
    pub atomic: bool,
    /// Which existing files are compared page by page with their replacements (`--delta`).
    pub delta: Delta,
    /// Treat a symbolic link to a directory as that directory where the source has one (`--keep-dirlinks`).
    pub keep_dirlinks: bool,
    /// Modify existing large files in place instead of replacing them (`--inplace`).
    pub in_place: bool,
    /// Which metadata is compared and set (`--no-owner` and the like).
    pub preserve: Preserve,
    /// Keep the entries that are replaced or removed (`--backup`).
    pub backup: Option<Backup>,
    /// Earlier copies at the destination (`--link-dest` and the like).
    pub references: References,
    /// Tell which attributes differ (`-i`), also where that takes further operations at a local destination.
    pub itemize: bool,
}

/// Earlier copies at the destination, whose files are not copied again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct References {
    /// The directories, at most [`MAX_REFERENCES`]; the first that has a file counts. Relative ones are relative to the
    /// destination.
    pub dirs: Vec<Vec<u8>>,
    /// How the sink treats an entry that one of them has.
    pub purpose: ReferencePurpose,
}

/// How a sink treats an entry that an earlier copy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum ReferencePurpose {
    /// A file becomes a hard link to that of the earlier copy (`--link-dest`).
    #[default]
    Link,
    /// It is not made, if the destination does not have it (`--compare-dest`).
    Omit,
}

/// The most directories of [`References`].
pub const MAX_REFERENCES: usize = 20;

impl SinkOptions {
    /// Whether the modification time of an entry counts as that of the source, on a destination that keeps both exactly.
    #[must_use]
    pub fn is_same_time(&self, found: Timestamp, wanted: Timestamp) -> bool {
        match self.modify_window {
            Some(window) => found.is_within(window, wanted),
            None => found == wanted || found.cut(self.source_time_unit) == wanted,
        }
    }

    /// Whether two names with the same metadata count as hard links to one file, on a destination without inode
    /// numbers. Not if the times do not show whether the content changed, or do not count.
    #[must_use]
    pub fn links_by_metadata(&self) -> bool {
        let trusts_times = self.preserve.times && self.compare != Compare::Nothing;
        trusts_times || self.compare == Compare::SizeOnly
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
            source_time_unit: 0,
            dry_run: false,
            durable: true,
            recheck: true,
            verify_disk: false,
            owner_by_name: false,
            atomic: false,
            delta: Delta::Never,
            keep_dirlinks: false,
            in_place: false,
            preserve: Preserve::default(),
            backup: None,
            references: References::default(),
            itemize: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::EntryKind;

    #[test]
    fn ages_limit_everything_but_directories() {
        let time = |sec| Timestamp { sec, nsec: 0 };
        let options = ScanOptions {
            modified_from: Some(time(5)),
            modified_until: Some(time(9)),
            ..ScanOptions::default()
        };
        assert!(options.limits_size_or_age() && !options.whole_tree().limits_size_or_age());
        let wrong = |kind, sec| {
            let entry = Entry::new(RelPath::root(), kind, 0);
            options.is_wrong_size_or_age(&Entry { mtime: time(sec), ..entry })
        };
        for kind in [EntryKind::File, EntryKind::Symlink(Vec::new()), EntryKind::Fifo] {
            let kept = [4, 5, 9, 10].map(|sec| wrong(kind.clone(), sec));
            assert_eq!(kept, [true, false, false, true]);
        }
        assert!(!wrong(EntryKind::Dir, 4));
    }

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

    #[test]
    fn times_are_compared_as_the_source_keeps_them() {
        let time = |nsec| Timestamp { sec: -5, nsec };
        let options = SinkOptions { source_time_unit: 100, ..SinkOptions::default() };
        assert!(options.is_same_time(time(199), time(100)) && options.is_same_time(time(100), time(100)));
        assert!(!options.is_same_time(time(200), time(100)) && !options.is_same_time(time(99), time(100)));
        let exact = SinkOptions { modify_window: Some(-1), ..options };
        assert!(!exact.is_same_time(time(199), time(100)));
    }
}
