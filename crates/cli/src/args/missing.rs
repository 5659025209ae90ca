//! Options for remote hosts without haul.

use clap::Args;

/// Options for remote hosts without haul.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct MissingHaulArgs {
    /// If the remote host lacks haul, upload this binary to ~/.cache/haul and use it instead of SFTP
    ///
    /// Does the same if the remote haul has another version. Uploads the static haul-ARCH of a release instead, always
    /// for another CPU architecture and otherwise if it exists, from the directory of this binary or from ../lib/haul;
    /// SHA256SUMS there must record it. haul never replaces an installed haul, and uploads each version once.
    #[arg(long, help_heading = "Remote hosts")]
    pub(crate) bootstrap: bool,
}
