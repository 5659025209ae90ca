//! What is shown.

use clap::Args;

/// Options for output.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Say nothing but errors
    #[arg(short = 'q', long, conflicts_with_all = ["json", "progress"], help_heading = "What is shown")]
    pub(crate) quiet: bool,
    /// One JSON object a line on standard output, for programs
    #[arg(long, help_heading = "What is shown")]
    pub(crate) json: bool,
    /// Show progress, also if standard error is no terminal
    #[arg(long, overrides_with = "no_progress", help_heading = "What is shown")]
    pub(crate) progress: bool,
    /// Show no progress
    #[arg(long, overrides_with = "progress", help_heading = "What is shown")]
    pub(crate) no_progress: bool,
}
