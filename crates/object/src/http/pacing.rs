//! Lets the bytes of requests and answers pass as the limit of the run allows.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use haul_core::Limiter;
use tokio::sync::Notify;

use crate::payload::{CHUNK, Payload};

/// Chunks of a body in a second of the limited rate.
const CHUNKS_PER_SECOND: u64 = 10;

/// The smallest chunk of a body at a low rate, in bytes.
const LEAST_CHUNK: usize = 1 << 10;

/// How often a request that waits for its turn looks whether the rate has changed.
const LOOK: Duration = Duration::from_millis(100);

/// The chunks of a body, as the limit lets them pass. Notifies `moved` of each, and of each look at the limit.
pub(super) fn chunks(
    body: Payload,
    limit: Arc<Limiter>,
    moved: Arc<Notify>,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    stream::unfold((body, 0), move |(body, mut at)| {
        let (limit, moved) = (Arc::clone(&limit), Arc::clone(&moved));
        async move {
            moved.notify_one();
            let chunk = body.chunk_of(&mut at, chunk_len(&limit)).transpose()?;
            if let Ok(bytes) = &chunk {
                wait_turn(&limit, bytes.len(), || moved.notify_one()).await;
            }
            Some((chunk, (body, at)))
        }
    })
}

/// The bytes of a body that are sent at a time: a small part of a low rate, as stores close a connection on which
/// nothing arrives for long.
fn chunk_len(limit: &Limiter) -> usize {
    let share = limit.rate().map_or(CHUNK as u64, |rate| rate / CHUNKS_PER_SECOND);
    usize::try_from(share).unwrap_or(CHUNK).clamp(LEAST_CHUNK, CHUNK)
}

/// Waits until the limit lets the bytes pass, in steps of [`chunk_len`]. Calls `waits` now and then: a request that waits
/// for its turn is not stalled.
pub(super) async fn wait_turn(limit: &Limiter, bytes: usize, waits: impl Fn()) {
    let mut left = bytes;
    while left > 0 {
        let step = if limit.rate().is_some() { left.min(chunk_len(limit)) } else { left };
        left -= step;
        let Some(turn) = limit.turn(step) else { continue };
        let mut wait = turn.wait();
        while !wait.is_zero() {
            waits();
            tokio::time::sleep(wait.min(LOOK)).await;
            wait = turn.wait();
        }
    }
}
