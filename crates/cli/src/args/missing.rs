//! Options for remote hosts without haul.

use clap::Args;

/// Options for remote hosts without haul.
#[derive(Debug, Args)]
pub(crate) struct MissingHaulArgs {
    /// If the remote host lacks haul, upload this binary to ~/.cache/haul and use it instead of SFTP
    ///
    /// Needs the same OS and CPU architecture. haul never replaces an installed haul, and uploads each version once.
    #[arg(long, help_heading = "Remote hosts")]
    pub(crate) bootstrap: bool,
}
