//! The pipeline: scan → offer → queue → read → write → commit, between any source and any sink.
//!
//! This crate knows only the contracts of `haul-core`: no file system, no network, no terminal.

pub mod cancel;
pub mod copy;
pub mod hash;
pub mod verify;

pub use cancel::Cancel;
pub use copy::{CopyOptions, Delete, Part, copy};
pub use hash::{HashLine, hash};
pub use verify::{Checked, VerifyOptions, check_manifest, verify};
