//! The manifest of a stream.

use std::path::PathBuf;

use clap::Args;

use crate::values::{ManifestFormat, written_file};

/// The manifest of a stream.
#[derive(Debug, Args)]
pub(crate) struct ManifestArgs {
    /// Write the digest of each file or object to FILE, as b3sum and `haul verify --manifest` read it
    ///
    /// FILE has one line for each file or object that was verified, with its BLAKE3 digest and its name without
    /// directories or key prefix. haul replaces FILE when the run has ended; if the run fails, an older FILE stays. A
    /// stream that is stored compressed or encrypted has no line with `put`; with `get` it has the digest of the decoded
    /// stream.
    #[arg(long, value_name = "FILE", value_parser = written_file(), help_heading = "Output")]
    pub(crate) manifest: Option<PathBuf>,
    /// The digests of the manifest: those of b3sum or of sha256sum
    ///
    /// For sha256, haul hashes the stream a second time while it passes; BLAKE3 verifies it.
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        default_value_t,
        requires = "manifest",
        help_heading = "Output"
    )]
    pub(crate) manifest_format: ManifestFormat,
    /// Sign the manifest with this ssh key (FILE.sig), if the run succeeded; see `haul verify --allowed-signers`
    ///
    /// KEY is the file of a private key, or of a public key whose private key ssh-agent has. haul runs ssh-keygen(1).
    #[arg(long, value_name = "KEY", requires = "manifest", help_heading = "Output")]
    pub(crate) sign: Option<PathBuf>,
}

impl ManifestArgs {
    /// Whether the run needs the SHA-256 of the streams.
    pub(crate) fn wants_sha256(&self) -> bool {
        self.manifest.is_some() && self.manifest_format == ManifestFormat::Sha256
    }
}
