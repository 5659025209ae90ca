//! The state that the parts of the sink share.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use haul_core::{BufferPool, ClearedPaths, Digest, Entry, Error, ErrorKind, Result, SinkOptions};
use haul_ends::metadata_warnings::MetadataWarnings;
use haul_ends::thread_pool::ThreadPool;
use haul_object::{Object, PutOptions};

use super::large_copies::LargeCopies;
use super::listing::DirectoryListings;
use super::metadata::ObjectMetadata;
use super::open_uploads::OpenUploads;
use super::request_threads::threads;
use super::tree::Tree;
use super::upload_part::MemorySlots;

/// A tree in a bucket, to be written.
pub(super) struct SinkState {
    pub(super) tree: Tree,
    pub(super) options: SinkOptions,
    /// The source, if the store copies it itself.
    pub(super) from: Option<Tree>,
    /// The options that objects are written with.
    pub(super) stored: PutOptions,
    /// Whether the store keeps metadata with the objects of directories, once this was seen.
    pub(super) keeps_directories: OnceLock<bool>,
    pub(super) listings: DirectoryListings,
    pub(super) cleared: ClearedPaths,
    pub(super) warnings: MetadataWarnings,
    pub(super) uploads: OpenUploads,
    pub(super) memory_slots: Arc<MemorySlots>,
    pub(super) copies: LargeCopies,
    /// Bytes of content that were stored.
    pub(super) went: AtomicU64,
    /// Bytes of large files that an interrupted run had sent.
    pub(super) held: AtomicU64,
    /// For requests about objects, and for entries without content.
    pub(super) look: ThreadPool,
    /// For content.
    pub(super) send: ThreadPool,
    pub(super) buffers: BufferPool,
}

impl SinkState {
    pub(super) fn new(
        tree: Tree,
        options: SinkOptions,
        from: Option<Tree>,
        stored: PutOptions,
        buffers: BufferPool,
    ) -> Self {
        Self {
            tree,
            options,
            from,
            stored,
            keeps_directories: OnceLock::new(),
            listings: DirectoryListings::default(),
            cleared: ClearedPaths::default(),
            warnings: MetadataWarnings::default(),
            uploads: OpenUploads::default(),
            memory_slots: MemorySlots::new(buffers.count() / 4),
            copies: LargeCopies::default(),
            went: AtomicU64::new(0),
            held: AtomicU64::new(0),
            look: threads(),
            send: threads(),
            buffers,
        }
    }

    /// Refuses entries that no file system could have: the end of the source may send anything.
    ///
    /// # Errors
    /// `Unsupported`.
    pub(super) fn check(&self, entry: &Entry) -> Result<()> {
        let refused = |why| self.tree.error(ErrorKind::Unsupported, "make", &entry.path, why);
        entry.check().map_err(refused)
    }

    /// Writes something with the metadata of `entry`; without extended attributes if the store refuses so much
    /// metadata. Metadata that is not taken over stays that of `there`.
    ///
    /// # Errors
    /// The error of the failed write.
    pub(super) fn with_metadata<T>(
        &self,
        entry: &Entry,
        digest: Option<&Digest>,
        there: Option<&Object>,
        write: impl Fn(&PutOptions) -> Result<T>,
    ) -> Result<T> {
        let (kind, preserve) = (self.tree.client.kind(), &self.options.preserve);
        let metadata = ObjectMetadata { kind, entry, digest, preserve, there };
        let options = |attributes| PutOptions { metadata: metadata.write(attributes), ..self.stored.clone() };
        match write(&options(true)) {
            Err(error) if !entry.xattrs.is_empty() && is_too_much(&error) => {
                self.warnings.note("attributes and ACLs", "the store takes no more notes", &entry.path);
                write(&options(false))
            }
            other => other.map_err(|error| self.not_written(error)),
        }
    }

    /// If nothing can be written at all, as without a bucket, the run ends.
    pub(super) fn not_written(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        let all = Error::new(ErrorKind::Unreachable, self.tree.side, error.operation(), error.cause());
        all.on(error.subject()).with_hint("is there a bucket of this name? haul makes none")
    }
}

/// Whether the store refused the amount of metadata.
fn is_too_much(error: &Error) -> bool {
    ["MetadataTooLarge", "HeaderSectionTooLarge", "HTTP 431"].iter().any(|code| error.cause().contains(code))
}
