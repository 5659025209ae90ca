//! How a stream is stored, and how it is read again.

use std::path::PathBuf;

use clap::Args;
use haul_core::Method;

use crate::settings::parse_frames;

/// Options for what is done to a stream before it is stored.
#[derive(Debug, Args)]
pub(crate) struct EncodeArgs {
    /// Store it packed: none, lz4, zstd or zstd:LEVEL [default: none]
    ///
    /// In frames of 2 MiB that stand alone, on all processors that the memory has room for. `zstd -d` and `lz4 -d` read
    /// them one after the other.
    #[arg(long, value_name = "HOW", value_parser = parse_frames, allow_hyphen_values = true,
          help_heading = "How it is stored")]
    pub(crate) compress: Option<Frames>,
    /// Store it encrypted, so that this one can read it: age1…, or 'ssh-ed25519 …'; may be repeated
    #[arg(long, value_name = "RECIPIENT", conflicts_with = "resume", help_heading = "How it is stored")]
    pub(crate) encrypt: Vec<String>,
    /// The same for each in a file, one a line; may be repeated
    #[arg(long, value_name = "FILE", conflicts_with = "resume", help_heading = "How it is stored")]
    pub(crate) encrypt_file: Vec<PathBuf>,
}

/// How a stream is packed; `None`: not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frames(pub(crate) Option<Method>);

/// Options for what is done with a stream that was stored so.
#[derive(Debug, Args)]
pub(crate) struct DecodeArgs {
    /// Get what is stored: neither decrypted nor unpacked
    #[arg(long, help_heading = "How it is stored")]
    pub(crate) raw: bool,
    /// A file with the key that decrypts the object, from age-keygen or ssh-keygen; may be repeated [default: the file
    /// that AGE_IDENTITY names]
    ///
    /// With this option haul refuses an object that is not encrypted, with exit code 3, because anyone who can write to
    /// the bucket could have put it there. A key from AGE_IDENTITY decrypts what is encrypted and refuses nothing.
    #[arg(long, value_name = "FILE", conflicts_with = "raw", help_heading = "How it is stored")]
    pub(crate) identity: Vec<PathBuf>,
    /// With --identity: get objects that are not encrypted, too
    #[arg(long, requires = "identity", help_heading = "How it is stored")]
    pub(crate) allow_plain: bool,
}

impl DecodeArgs {
    /// Whether what is not encrypted is refused.
    pub(crate) fn encrypted_only(&self) -> bool {
        !self.identity.is_empty() && !self.allow_plain
    }
}
