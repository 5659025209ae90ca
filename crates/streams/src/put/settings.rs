//! The settings, progress and outcome of a put.

use std::sync::atomic::{AtomicBool, AtomicU64};

use haul_core::{Error, Result};
use haul_object::{Client, PutOptions};

use crate::sidecar::Proof;

/// The memory in bytes that a process takes besides content.
pub const OVERHEAD: u64 = 40 << 20;

/// The destination of a stream.
pub struct PutTarget {
    /// The bucket.
    pub client: Client,
    /// The key of the object.
    pub key: String,
}

/// How a stream is stored.
#[derive(Clone, Debug)]
pub struct PutSettings {
    /// The options of the object.
    pub options: PutOptions,
    /// Memory for content in bytes, at least 24 MiB and [`Encode::least`](super::Encode::least).
    pub memory: u64,
    /// The most parts of an object.
    pub max_parts: u32,
    /// Whether an empty stream makes an object.
    pub allow_empty: bool,
    /// Whether an incomplete upload of an earlier run is resumed.
    pub resume: bool,
}

/// Progress in bytes.
#[derive(Debug, Default)]
pub struct PutStatus {
    /// Encoded bytes read.
    pub read: AtomicU64,
    /// Plain bytes read.
    pub plain: AtomicU64,
    /// Whether the end of the stream was reached.
    pub ended: AtomicBool,
    /// Bytes sent, over all targets.
    pub sent: AtomicU64,
    /// Bytes found in the store from an earlier run, over all targets.
    pub resumed: AtomicU64,
}

/// An object that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// The length of the stream in bytes.
    pub len: u64,
    /// The length and digest of the object, which differ from the stream's if that was encoded.
    pub proof: Proof,
    /// Parts of the object; 0 if it took one request.
    pub parts: u32,
}

/// The outcome of a put.
pub struct PutOutcome {
    /// The failure of the input; then no object was written.
    pub input: Option<Error>,
    /// For each target the object, or why there is none. `None` if the input failed.
    pub targets: Vec<Option<Result<StoredObject>>>,
}
