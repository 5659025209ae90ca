//! Options for compression and encryption of stored streams.

use std::path::PathBuf;

use clap::Args;
use haul_core::Compress;

use crate::values::parse_compress;

/// Options for encoding a stream before it is stored.
#[derive(Debug, Args)]
pub(crate) struct EncodeArgs {
    /// Compress: an object as it is stored (none, lz4, zstd or zstd:LEVEL) [default: none]; on the way to a host (auto,
    /// too) [default: auto]
    ///
    /// haul stores independent frames of 2 MiB, compressed in parallel on as many CPUs as --max-memory allows. `zstd -d`
    /// and `lz4 -d` decompress them. A file gets the content of the stream: to store it compressed, pipe the stream
    /// through zstd.
    #[arg(long, value_name = "HOW", value_parser = parse_compress, allow_hyphen_values = true,
          help_heading = "Compression and encryption")]
    pub(crate) compress: Option<Compress>,
    /// Encrypt to this age recipient: age1..., or 'ssh-ed25519 ...'; may be repeated
    #[arg(
        long,
        value_name = "RECIPIENT",
        conflicts_with = "resume",
        help_heading = "Compression and encryption"
    )]
    pub(crate) encrypt: Vec<String>,
    /// Encrypt to the recipients in FILE, one per line; may be repeated
    #[arg(long, value_name = "FILE", conflicts_with = "resume", help_heading = "Compression and encryption")]
    pub(crate) encrypt_file: Vec<PathBuf>,
}

/// Options for decoding a stored stream.
#[derive(Debug, Args)]
pub(crate) struct DecodeArgs {
    /// Download the object as stored, without decrypting or decompressing
    #[arg(long, help_heading = "Compression and encryption")]
    pub(crate) raw: bool,
    /// File with the private key, from age-keygen or ssh-keygen; may be repeated [default: $AGE_IDENTITY]
    ///
    /// With this option haul refuses objects that are not encrypted (exit code 3), because anyone who can write to the
    /// bucket could have put them there. With a key from AGE_IDENTITY it accepts them.
    #[arg(long, value_name = "FILE", conflicts_with = "raw", help_heading = "Compression and encryption")]
    pub(crate) identity: Vec<PathBuf>,
    /// With --identity: accept objects that are not encrypted
    #[arg(long, requires = "identity", help_heading = "Compression and encryption")]
    pub(crate) allow_plain: bool,
}

impl DecodeArgs {
    /// Whether objects that are not encrypted are refused.
    pub(crate) fn encrypted_only(&self) -> bool {
        !self.identity.is_empty() && !self.allow_plain
    }
}
