//! Checks of the pages of database files while a source reads them (`--pages`).

use serde::{Deserialize, Serialize};

use crate::path::RelPath;
use crate::text::shown;

/// The most bad pages that a source names. It counts further ones.
pub const MAX_BAD_PAGES: usize = 1000;

/// The most kinds of [`PageReport::unchecked`].
pub const MAX_UNCHECKED: usize = 16;

/// Which pages a source checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageChecks {
    /// The databases.
    pub of: Databases,
    /// A file with a bad page fails ([`crate::ErrorKind::BadPages`]); otherwise it is only reported.
    pub fails: bool,
}

/// The databases whose pages are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Databases {
    /// InnoDB and PostgreSQL. haul only reports the database files that it cannot check.
    #[default]
    Auto,
    /// InnoDB alone. A file with the name of a tablespace that cannot be checked counts as bad.
    InnoDb,
    /// PostgreSQL alone. A file of a relation that cannot be checked counts as bad.
    Postgres,
}

/// The results of the page checks of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageReport {
    /// How many pages were checked.
    pub counts: PageCounts,
    /// The bad pages by name, in order: the first [`MAX_BAD_PAGES`] that were found.
    pub named: Vec<BadPage>,
    /// Files that were not checked, and why.
    pub unchecked: Vec<Unchecked>,
}

/// How many pages were checked. A page that is read twice counts twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageCounts {
    /// Pages of InnoDB that were checked.
    pub innodb: u64,
    /// Pages of PostgreSQL that were checked.
    pub postgres: u64,
    /// Of these, the bad ones.
    pub bad: u64,
    /// Pages that have no checksum that can be checked.
    pub without_checksum: u64,
}

/// Files whose pages were not checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unchecked {
    /// Why.
    #[serde(deserialize_with = "shown")]
    pub cause: String,
    /// The number of files.
    pub count: u64,
    /// The first of them.
    pub example: RelPath,
}

/// A page with a wrong checksum.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BadPage {
    /// Its file.
    pub path: RelPath,
    /// Its number in the file, from 0.
    pub page: u64,
}

impl PageReport {
    /// Adds the results of another part.
    pub fn join(&mut self, other: Self) {
        self.counts.add(&other.counts);
        self.named.extend(other.named);
        for note in other.unchecked {
            match self.unchecked.iter_mut().find(|known| known.cause == note.cause) {
                Some(known) => known.count = known.count.saturating_add(note.count),
                None => self.unchecked.push(note),
            }
        }
    }
}

impl PageCounts {
    /// Adds the counts of another part.
    pub fn add(&mut self, other: &Self) {
        self.innodb = self.innodb.saturating_add(other.innodb);
        self.postgres = self.postgres.saturating_add(other.postgres);
        self.bad = self.bad.saturating_add(other.bad);
        self.without_checksum = self.without_checksum.saturating_add(other.without_checksum);
    }
}
