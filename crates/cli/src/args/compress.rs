//! How content is packed on its way.

use clap::Args;
use haul_core::Compress;

use crate::settings::parse_compress;

/// Options for packing.
#[derive(Debug, Args)]
pub(crate) struct CompressArgs {
    /// Pack content on its way to or from another machine: auto (as the link and the processors suggest), none, lz4,
    /// zstd or zstd:LEVEL [default: auto]
    #[arg(long, value_name = "HOW", value_parser = parse_compress, allow_hyphen_values = true,
          overrides_with = "zstd", help_heading = "Other machines")]
    pub(crate) compress: Option<Compress>,
    /// The same as --compress zstd
    #[arg(short = 'z', overrides_with = "compress", help_heading = "Other machines")]
    pub(crate) zstd: bool,
}
