//! Options for the index, which keeps the entries of a source between runs.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::values::parse_time;

/// Options for the index of a source.
#[derive(Clone, Debug, Args)]
pub(crate) struct IndexArgs {
    /// Keep an index of SRC; re-read only directories whose times changed
    ///
    /// For regular runs over a tree on a file server. If the times of a directory are unchanged since the last run,
    /// haul takes its entries from the index instead of reading them. Files modified in place are NOT detected
    /// (content, mode, owner or times of an existing file, such as a log or a database) until a name in their directory
    /// changes or --index-refresh expires, or until a run without --index. haul always reads DST, and checks a
    /// difference at SRC before it changes anything. SRC must be local or mounted. The default FILE is in haul/index
    /// below $XDG_STATE_HOME or ~/.local/state, with a name derived from SRC and DST.
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        conflicts_with = "copy_links",
        help_heading = "Filters"
    )]
    pub(crate) index: Option<Option<PathBuf>>,
    /// Re-read a directory at least every TIME (90s, 30m, 12h, 7d)
    #[arg(
        long,
        value_name = "TIME",
        default_value = "7d",
        value_parser = parse_time,
        requires = "index",
        help_heading = "Filters"
    )]
    pub(crate) index_refresh: Duration,
}
