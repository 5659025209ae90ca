//! The options for checks of database pages.

use clap::{Args, ValueEnum};
use haul_core::{Databases, PageChecks};

/// Which database pages are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PagesMode {
    /// Those of all databases, as far as their files are recognized; reports the others
    Auto,
    /// InnoDB (MariaDB, MySQL); a tablespace that cannot be checked fails
    Innodb,
    /// PostgreSQL with data checksums; a relation that cannot be checked fails
    Postgres,
    /// None
    #[default]
    Off,
}

/// The treatment of a file with bad pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum BadPagesMode {
    /// It fails (exit code 3); a copy leaves it out
    #[default]
    Fail,
    /// It is treated as any other file; the pages are reported
    Warn,
}

/// The options for checks of database pages.
#[derive(Debug, Args)]
pub(crate) struct PagesArgs {
    /// Check the checksums of the pages of database files as they are read at SRC
    ///
    /// haul reads a bad page again, three times, as a server may be writing it. Then it names the page
    /// (`orders.ibd page 40961`), and the file fails. haul checks only files that it reads: not files that are up to date
    /// at DST. SRC has to be here, or on a host with haul; a stream for `get --unpack` can be anywhere.
    ///
    /// `put` checks the members of xbstream and tar, or a stream that is one tablespace, as they pass. It cannot read a
    /// page again: at the first bad one it fails, and stores nothing.
    #[arg(long, value_enum, value_name = "WHICH", default_value_t, help_heading = "Databases")]
    pub(crate) pages: PagesMode,
    /// How to treat files with bad pages
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        default_value_t,
        requires = "pages",
        help_heading = "Databases"
    )]
    pub(crate) bad_pages: BadPagesMode,
}

impl PagesArgs {
    /// The checks, if there are any.
    pub(crate) fn checks(&self) -> Option<PageChecks> {
        let of = match self.pages {
            PagesMode::Auto => Databases::Auto,
            PagesMode::Innodb => Databases::InnoDb,
            PagesMode::Postgres => Databases::Postgres,
            PagesMode::Off => return None,
        };
        Some(PageChecks { of, fails: self.bad_pages == BadPagesMode::Fail })
    }
}
