//! What is done where the other machine has no haul.

use clap::Args;

/// Options for machines without haul.
#[derive(Debug, Args)]
pub(crate) struct MissingHaulArgs {
    /// Where haul is not installed, put this one into ~/.cache/haul there and use it, instead of SFTP
    ///
    /// The other machine must be of the same kind. What is installed there is never replaced, and what is in the
    /// cache already is not copied again.
    #[arg(long, help_heading = "Other machines")]
    pub(crate) bootstrap: bool,
}
