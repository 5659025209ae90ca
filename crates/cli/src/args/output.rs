//! Output options.

use std::path::PathBuf;

use clap::Args;

use crate::values::written_file;

/// Output options.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print errors only
    #[arg(short = 'q', long, conflicts_with_all = ["json", "progress"], help_heading = "Output")]
    pub(crate) quiet: bool,
    /// Write JSON Lines to standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// Append a log to FILE: one line with the time for each change, failure, warning and note
    ///
    /// The log begins with the command line, without passwords and the command of -e, and ends with the summary and the
    /// exit code. Changes are in the format of -i. If the log cannot be written any more, the run continues, and the exit
    /// code is not 0.
    #[arg(long, value_name = "FILE", value_parser = written_file(), help_heading = "Output")]
    pub(crate) log_file: Option<PathBuf>,
    /// Show progress beside other lines, too; without a terminal, a line every 10 seconds
    #[arg(long, overrides_with = "no_progress", help_heading = "Output")]
    pub(crate) progress: bool,
    /// Do not show progress
    #[arg(long, overrides_with = "progress", help_heading = "Output")]
    pub(crate) no_progress: bool,
}
