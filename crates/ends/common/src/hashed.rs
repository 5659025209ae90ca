//! The count of the bytes that a source hashes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_core::{Batch, BatchData, Result};

/// The bytes of content that were hashed for the digests of whole files.
#[derive(Debug, Default)]
pub struct HashedBytes(AtomicU64);

impl HashedBytes {
    /// Counts bytes.
    pub fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The sum so far.
    pub fn sum(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts the content of a batch that `read` reads and hashes.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn read(
        &self,
        batch: &Arc<Batch>,
        read: impl FnOnce(&Arc<Batch>) -> Result<BatchData>,
    ) -> Result<BatchData> {
        let data = read(batch)?;
        self.add(batch.iter().map(|(entry, slice)| slice.len_in(entry.len)).sum());
        Ok(data)
    }
}

#[cfg(test)]
mod tests {
    use haul_core::{Buffer, Entry, EntryKind, Error, ErrorKind, RelPath, SLICE_LEN, Side, Slice};

    use super::*;

    #[test]
    fn the_content_of_batches_that_are_read_counts() {
        let path = RelPath::new(b"f").unwrap();
        let entry = Arc::new(Entry::new(path, EntryKind::File, SLICE_LEN + 5));
        let slices = vec![Slice::whole(0, 0), Slice::whole(0, 1)];
        let batch = Arc::new(Batch { entries: vec![entry], slices, again: false });
        let hashed = HashedBytes::default();
        let failed = hashed.read(&batch, |_| Err(Error::new(ErrorKind::Io, Side::Source, "read", "test")));
        assert!(failed.is_err() && hashed.sum() == 0);
        let none = |batch: &Arc<Batch>| {
            let batch = Arc::clone(batch);
            Ok(BatchData { batch, slices: Vec::new(), content: Buffer::default(), at_hand: true })
        };
        let _ = hashed.read(&batch, none).unwrap();
        assert_eq!(hashed.sum(), SLICE_LEN + 5);
    }
}
