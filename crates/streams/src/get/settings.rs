//! The settings, progress and result of a get.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use haul_core::sync::Mutex;
use haul_core::{Digest, Pace};

use super::check::CheckedBy;
use crate::encoding::Encoding;
use crate::keys::Identities;

/// How an object is read.
#[derive(Clone, Default)]
pub struct GetSettings {
    /// Memory for content in bytes, at least 24 MiB.
    pub memory: u64,
    /// Whether the object is written as it is stored, without decoding.
    pub raw: bool,
    /// The keys that decrypt it.
    pub keys: Arc<Identities>,
    /// Whether an unencrypted object is refused.
    pub encrypted_only: bool,
}

/// Progress in bytes.
#[derive(Debug, Default)]
pub struct GetStatus {
    /// Stored bytes that were processed.
    pub written: AtomicU64,
    /// Decoded bytes, if the stream is encoded.
    pub plain: AtomicU64,
    /// Bytes that an earlier run left.
    pub resumed: AtomicU64,
    /// The lengths of the frames, if the stream is compressed in independent frames alone.
    pub(crate) frames: Mutex<Vec<u32>>,
    /// Whether the get waits for the store, not for the reader.
    pub waits: AtomicBool,
    /// The limits of its rate.
    pub pace: Pace,
}

impl GetStatus {
    /// Nothing has moved yet.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        Self { pace, ..Self::default() }
    }
}

/// The result of a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Got {
    /// The kind of the check of the object; `None` if the reader closed the pipe before the end.
    pub checked: Option<CheckedBy>,
    /// Slow ranges that were requested twice.
    pub asked_again: u64,
    /// How the stream was encoded; plain with [`GetSettings::raw`].
    pub encoding: Encoding,
    /// Length in bytes, as written.
    pub len: u64,
    /// The digest of the output: that of a file, or the recorded one that an object was compared with.
    pub digest: Option<Digest>,
    /// The SHA-256 of the output, if the output hashes by it.
    pub sha256: Option<Digest>,
}
