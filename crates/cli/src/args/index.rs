//! What is remembered of a source between runs.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::settings::parse_time;

/// Options for the index of a source.
#[derive(Clone, Debug, Args)]
pub(crate) struct IndexArgs {
    /// Remember what is in SRC, and read only folders whose times changed since
    ///
    /// For a daily run over a tree on a file server. A folder whose times are those of the last run holds the same
    /// names: what is in it is taken from the index, and the folder is looked at, not each file. So what was changed in
    /// place is NOT seen: content that was written into a file that was there (a log, a database), its mode, owner or
    /// times. It is seen once a name in its folder changes; at the latest when the folder was read longer ago than
    /// --index-refresh says; and in any run without --index. DST is looked at as always, and nothing is done there on
    /// the word of the index: what differs is looked at in SRC first. SRC must be on this machine, or mounted there. The
    /// index is in FILE; without that, in the folder haul/index in $XDG_STATE_HOME or ~/.local/state, under a name made
    /// from SRC and DST.
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        help_heading = "What is looked at"
    )]
    pub(crate) index: Option<Option<PathBuf>>,
    /// Read a folder again that was read longer ago than TIME (90s, 30m, 12h, 7d), whatever its times say
    #[arg(
        long,
        value_name = "TIME",
        default_value = "7d",
        value_parser = parse_time,
        requires = "index",
        help_heading = "What is looked at"
    )]
    pub(crate) index_refresh: Duration,
}
