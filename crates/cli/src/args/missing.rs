//! Options for remote hosts without haul.

use clap::Args;

/// Options for remote hosts without haul.
#[derive(Clone, Debug, Args)]
pub(crate) struct MissingHaulArgs {
    /// If the remote host lacks haul, upload this binary to ~/.cache/haul and use it instead of SFTP
    ///
    /// Does the same if the remote haul has another version. For a CPU architecture other than that of this host, uploads
    /// haul-ARCH from the directory of this binary or from ../lib/haul, where packages install it. haul never replaces an
    /// installed haul, and uploads each version once.
    #[arg(long, help_heading = "Remote hosts")]
    pub(crate) bootstrap: bool,
}
