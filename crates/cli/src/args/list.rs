//! The list of paths that a command works on.

use std::ffi::OsString;

use clap::Args;

/// The list of paths that a command works on.
#[derive(Clone, Debug, Args)]
pub(crate) struct ListArgs {
    /// Take only the paths listed in FILE, directories with their contents; `-` reads standard input
    ///
    /// One path per line, relative to SRC. Unless -0 is given, blank lines and lines that begin with `#` or `;` are
    /// ignored. Paths are kept: `a/b` of SRC belongs to DST/a/b, whether SRC ends in a slash or not. A listed path that
    /// SRC lacks is a failure. `haul sync` deletes only in the listed directories, never beside a listed file, and
    /// nothing at all if a listed path is missing (unless --ignore-errors).
    #[arg(long, value_name = "FILE", help_heading = "Filters")]
    pub(crate) files_from: Option<OsString>,
}
