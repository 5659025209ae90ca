//! `haul hash`.

use std::ffi::OsString;

use clap::Args;

use super::{FilterArgs, GivenArgs, LinkArgs, LinksArgs, PagesArgs, StoreEndArgs};
use crate::values::ManifestFormat;

const EXAMPLES: &str = "\
Examples:
  haul hash /data/ > data.b3
  (cd /data && b3sum -c) < data.b3
  haul hash --format sha256 /data/ > data.sha256    # for sha256sum -c
  haul hash nas:/data/ | LC_ALL=C sort -k 2 > data.b3

The order of the lines varies: sort them to compare two manifests. Paths are
relative to SRC; if SRC is a file, the path is its name.";

/// Print a manifest: one b3sum line per file
#[derive(Debug, Args)]
#[command(args_override_self = true, after_help = EXAMPLES)]
pub(crate) struct HashArgs {
    /// The file or directory to hash
    #[arg(value_name = "SRC")]
    pub(crate) source: OsString,
    /// The digests: those of b3sum or of sha256sum
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) format: ManifestFormat,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) links: LinksArgs,
    #[command(flatten)]
    pub(crate) pages: PagesArgs,
    #[command(flatten)]
    pub(crate) given: GivenArgs,
    #[command(flatten)]
    pub(crate) link: LinkArgs,
    #[command(flatten)]
    pub(crate) store: StoreEndArgs,
    /// Print errors only
    #[arg(short = 'q', long, conflicts_with = "progress", help_heading = "Output")]
    pub(crate) quiet: bool,
    /// Show progress beside other lines, too; without a terminal, a line every 10 seconds
    #[arg(long, overrides_with = "no_progress", help_heading = "Output")]
    pub(crate) progress: bool,
    /// Do not show progress
    #[arg(long, overrides_with = "progress", help_heading = "Output")]
    pub(crate) no_progress: bool,
}
