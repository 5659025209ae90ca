//! The ranges of one object.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::digest::SliceHasher;
use haul_core::{BufferPool, Result};
use haul_object::{Client, Object};

use super::window::{Fetched, Ranges};

/// Bytes that are hashed at once, while they are in the cache of the CPU.
const PIECE: usize = 128 * 1024;

/// Fetches ranges of an object, and hashes them as slices.
pub(super) struct ObjectRanges<'a> {
    client: &'a Client,
    object: &'a Object,
    pool: BufferPool,
    /// A BLAKE3 digest may be recorded.
    hashes: AtomicBool,
}

impl<'a> ObjectRanges<'a> {
    /// With `memory` bytes for content.
    pub(super) fn new(client: &'a Client, object: &'a Object, memory: u64) -> Self {
        Self { client, object, pool: BufferPool::new(memory), hashes: AtomicBool::new(true) }
    }

    /// How many buffers there are.
    pub(super) fn buffers(&self) -> usize {
        self.pool.count()
    }

    /// No BLAKE3 digest is recorded: hashing by it is of no use.
    pub(super) fn stop_hashing(&self) {
        self.hashes.store(false, Ordering::Relaxed);
    }
}

impl Ranges for ObjectRanges<'_> {
    fn len(&self) -> u64 {
        self.object.len
    }

    fn name(&self) -> String {
        self.client.name(&self.object.key)
    }

    fn at_once(&self) -> usize {
        self.client.at_once()
    }

    fn fetch(&self, range: Range<u64>, unwanted: &AtomicBool) -> Result<Fetched> {
        let mut content = self.pool.take();
        let hashes = self.hashes.load(Ordering::Relaxed);
        let (len, start) = (self.object.len, range.start);
        let begin = || hashes.then(|| SliceHasher::new(len, start));
        let (mut hasher, mut hashed) = (begin(), 0);
        self.client.read(self.object, range, unwanted, &mut |bytes| match bytes {
            None => {
                content.truncate(0);
                (hasher, hashed) = (begin(), 0);
            }
            // The store never sends more than was requested.
            Some(bytes) => {
                if let Some(space) = content.grow(bytes.len()) {
                    space.copy_from_slice(bytes);
                }
                if let Some(hasher) = &mut hasher
                    && content.bytes().len() >= hashed + PIECE
                {
                    hasher.update(&content.bytes()[hashed..]);
                    hashed = content.bytes().len();
                }
            }
        })?;
        let value = hasher.map(|mut hasher| {
            hasher.update(&content.bytes()[hashed..]);
            hasher.finish()
        });
        Ok(Fetched { content, value })
    }
}
