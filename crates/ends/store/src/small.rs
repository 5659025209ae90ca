//! Whole small files: one request each.

use std::sync::Arc;

use bytes::Bytes;
use haul_core::{Digest, Entry, Outcome, Result, SliceData};
use haul_object::Payload;

use super::part::blocks;
use super::sink::ObjectSink;

/// Writes a file of one slice.
///
/// # Errors
/// If the store does not take it.
pub(super) fn write(
    sink: &ObjectSink,
    entry: &Arc<Entry>,
    data: &SliceData,
    content: &Bytes,
) -> Result<Outcome> {
    // The proof of a file of one slice is its digest.
    let digest = Digest(data.value.0);
    let payload = Payload::from_blocks(blocks(entry.len, data, content));
    let key = sink.tree.key(&entry.path);
    sink.noted(entry, Some(&digest), |options| sink.tree.client.write_object(&key, &payload, options))?;
    Ok(Outcome::Committed(Some(digest)))
}
