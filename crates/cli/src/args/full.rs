//! Options for a full destination.

use clap::Args;
use haul_engine::OnFull;

use crate::values::parse_on_full;

/// Options for a full destination.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct FullArgs {
    /// When DST is full or over quota: `pause` until there is free space, or `fail` with exit code 5
    ///
    /// `pause` reports it and retries, after 1 s, then every 30 s. After an hour without free space it fails.
    /// `pause:TIME` sets another time: pause:90s, pause:30m, pause:12h, pause:2d. Copied data is kept; rerun to resume.
    #[arg(long, value_name = "ACTION", default_value = "pause:1m", value_parser = parse_on_full, help_heading = "Safety")]
    pub(crate) on_full: OnFull,
}
