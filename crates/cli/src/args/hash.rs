//! `haul hash`.

use std::ffi::OsString;

use clap::Args;

use super::{FilterArgs, LinkArgs, StoreEndArgs};

const EXAMPLES: &str = "\
Examples:
  haul hash /data/ > data.b3          (cd /data && b3sum -c) < data.b3
  haul hash nas:/data/ | LC_ALL=C sort -k 2 > data.b3

Lines come as digests are ready, in no fixed order: sort them to compare two lists.
Paths are below SRC; for one file it is its name.";

/// Print a manifest: one b3sum line for each file
#[derive(Debug, Args)]
#[command(args_override_self = true, after_help = EXAMPLES)]
pub(crate) struct HashArgs {
    /// What to hash
    #[arg(value_name = "SRC")]
    pub(crate) source: OsString,
    /// What is looked at.
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// The remote end.
    #[command(flatten)]
    pub(crate) link: LinkArgs,
    /// The object store.
    #[command(flatten)]
    pub(crate) store: StoreEndArgs,
    /// Say nothing but errors
    #[arg(short = 'q', long, conflicts_with = "progress", help_heading = "What is shown")]
    pub(crate) quiet: bool,
    /// Show progress, also if standard error is no terminal
    #[arg(long, overrides_with = "no_progress", help_heading = "What is shown")]
    pub(crate) progress: bool,
    /// Show no progress
    #[arg(long, overrides_with = "progress", help_heading = "What is shown")]
    pub(crate) no_progress: bool,
}
