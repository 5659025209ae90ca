//! The settings, progress and outcome of a put.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use haul_core::{
    BufferPool, ContentLimit, Digest, Error, Location, Note, Pace, PageReport, RelPath, Result, Sink, Source,
};
use haul_members::IndexFault;
use haul_object::{Client, PutOptions};

/// The memory in bytes that a process takes besides content.
pub const OVERHEAD: u64 = 40 << 20;

/// The destination of a stream.
pub enum PutTarget {
    /// An object in a store.
    Object(Box<ObjectTarget>),
    /// A file, here or on a host.
    File(FileTarget),
}

impl PutTarget {
    /// Its name, for messages.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Object(target) => target.client.name(&target.key),
            Self::File(target) => target.name.clone(),
        }
    }
}

/// An object in a store.
pub struct ObjectTarget {
    /// The bucket.
    pub client: Client,
    /// The key of the object.
    pub key: String,
}

/// A file, here or on a host.
pub struct FileTarget {
    /// Its name, for messages.
    pub name: String,
    /// Its location.
    pub at: Box<Location>,
    /// Its path below the root of the sink.
    pub path: RelPath,
    /// Where it is written.
    pub sink: Arc<dyn Sink>,
    /// The same place, to look up the entry that has the name of the file.
    pub there: Arc<dyn Source>,
    /// Memory for content on its way to the sink.
    pub pool: BufferPool,
    /// The rate limit.
    pub limit: ContentLimit,
    /// Receives messages for the user.
    pub note: Note,
    /// Whether the sink goes on from the staged file of an interrupted put.
    pub resumes: bool,
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
    /// The limits of its rate.
    pub pace: Pace,
}

impl PutStatus {
    /// Nothing has moved yet.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        Self { pace, ..Self::default() }
    }
}

/// An object or a file that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// The length of the stream in bytes.
    pub len: u64,
    /// The digest of the stream; `None` if it was encoded.
    pub digest: Option<Digest>,
    /// Parts of an object; 0 if it took one request, and for a file.
    pub parts: u32,
}

/// The outcome of a put.
#[derive(Default)]
pub struct PutOutcome {
    /// The failure of the input; then no object was written.
    pub input: Option<Error>,
    /// For each target the object, or why there is none. `None` if the input failed.
    pub targets: Vec<Option<Result<StoredObject>>>,
    /// The SHA-256 of the stream, if the input hashes by it.
    pub sha256: Option<Digest>,
    /// The findings about pages, if they are checked.
    pub pages: Option<PageReport>,
    /// Why no index of the members was written; `None` for a short stream, too.
    pub unindexed: Option<IndexFault>,
}
