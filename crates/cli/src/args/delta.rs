//! Options for large files of which DST has another version.

use clap::{Args, ValueEnum};

/// When a large file is compared by blocks with the version at DST.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeltaMode {
    /// When sizes are similar and it saves traffic or writes
    #[default]
    Auto,
    /// Whenever DST has a version
    On,
    /// Never: send changed files as a whole
    Off,
}

/// Options for large files of which DST has another version.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct DeltaArgs {
    /// For files over 4 MiB, send only changed 16 KiB blocks: auto, on or off
    ///
    /// haul compares the blocks at the same offsets of both versions. This finds data that was changed in place or
    /// appended (databases, VM images, logs), but not data that moved. `auto` compares if the sizes differ by a factor
    /// of at most 4 and it pays: data goes to another host, the file system of DST shares blocks (btrfs, xfs), or
    /// --inplace is given. It stops early in files where nothing matches.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, help_heading = "Transfer")]
    pub(crate) delta: DeltaMode,
    /// Update files over 4 MiB at DST in place instead of replacing them
    ///
    /// Readers see a mix of old and new data until the run has finished; after an interruption, until the next run has
    /// finished. In return DST needs no space for a second copy and hard links are kept, unless the file has more links
    /// at DST than at SRC: then haul replaces it.
    #[arg(long, help_heading = "Transfer")]
    pub(crate) inplace: bool,
}
