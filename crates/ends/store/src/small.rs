//! Small files: one request each.

use std::sync::Arc;

use bytes::Bytes;
use haul_core::{Digest, Entry, Outcome, Result, SliceData};
use haul_object::Payload;

use super::sink_state::SinkState;
use super::upload_part::blocks;

/// Writes a file of one slice.
///
/// # Errors
/// The error of the failed request.
pub(super) fn write(
    sink: &SinkState,
    entry: &Arc<Entry>,
    data: &SliceData,
    content: &Bytes,
) -> Result<Outcome> {
    // The chaining value of a single slice is the digest of the file.
    let digest = Digest(data.value.0);
    let payload = Payload::from_blocks(blocks(entry.len, data, content));
    let key = sink.tree.key(&entry.path);
    sink.with_metadata(entry, Some(&digest), None, |options| {
        sink.tree.client.write_object(&key, &payload, options)
    })?;
    Ok(Outcome::Committed(Some(digest)))
}
