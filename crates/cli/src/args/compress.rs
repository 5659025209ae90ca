//! Options for compression in transit.

use clap::Args;
use haul_core::{Compress, Method};

use crate::values::{LEVEL, parse_compress};

/// Options for compression in transit.
#[derive(Debug, Args)]
pub(crate) struct CompressArgs {
    /// Compress data in transit: auto (adapts to link and CPUs), none, lz4, zstd or zstd:LEVEL [default: auto]
    #[arg(long, value_name = "HOW", value_parser = parse_compress, allow_hyphen_values = true,
          overrides_with = "zstd", help_heading = "Remote hosts")]
    pub(crate) compress: Option<Compress>,
    /// The same as --compress zstd
    #[arg(short = 'z', overrides_with = "compress", help_heading = "Remote hosts")]
    pub(crate) zstd: bool,
}

impl CompressArgs {
    /// The requested compression; `None` if no option was given.
    pub(crate) fn wish(&self) -> Option<Compress> {
        if self.zstd { Some(Compress::Always(Method::Zstd(LEVEL))) } else { self.compress }
    }
}
