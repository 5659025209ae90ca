//! What is done when the destination is full.

use clap::Args;
use haul_engine::OnFull;

use crate::settings::parse_on_full;

/// Options for a destination that is full.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct FullArgs {
    /// When DST is full or over quota: `pause` and go on once there is room, or `fail`, with exit code 5
    ///
    /// `pause` says so, and then tries with a little of what is left, after one second first, later every 30 seconds.
    /// After a minute without room, or an hour if `pause` was asked for, it ends as `fail` does; `pause:TIME` sets
    /// another end, as in pause:90s, pause:30m, pause:12h, pause:2d. What is there already stays; the same command goes
    /// on.
    #[arg(long, value_name = "WHAT", default_value = "pause:1m", value_parser = parse_on_full, help_heading = "Safety")]
    pub(crate) on_full: OnFull,
}
