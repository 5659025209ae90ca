//! Output options.

use clap::Args;

/// Output options.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print errors only
    #[arg(short = 'q', long, conflicts_with_all = ["json", "progress"], help_heading = "Output")]
    pub(crate) quiet: bool,
    /// Write JSON Lines to standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// Show progress even if standard error is not a terminal
    #[arg(long, overrides_with = "no_progress", help_heading = "Output")]
    pub(crate) progress: bool,
    /// Do not show progress
    #[arg(long, overrides_with = "progress", help_heading = "Output")]
    pub(crate) no_progress: bool,
}
