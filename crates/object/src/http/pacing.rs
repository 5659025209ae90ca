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

/// The chunks of a body, each when its turn starts. Notifies `moved` of each, and now and then while it waits.
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
                wait_turn(&limit, bytes.len() as u64, || moved.notify_one()).await;
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

/// Waits until the turn of the bytes starts. Calls `waits` now and then: a request that waits is not stalled.
pub(super) async fn wait_turn(limit: &Limiter, bytes: u64, waits: impl Fn()) {
    let Some(turn) = limit.reserve(bytes) else { return };
    loop {
        let wait = turn.time_to_start();
        if wait.is_zero() {
            return;
        }
        waits();
        tokio::time::sleep(wait.min(LOOK)).await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::*;

    #[test]
    fn a_body_is_sent_in_small_chunks_at_a_low_rate() {
        let limit = Arc::new(Limiter::default());
        let lens = |limit: &Arc<Limiter>| -> Vec<usize> {
            let chunks = chunks(Payload::from_bytes(vec![7; 150_000]), Arc::clone(limit), Arc::default());
            let lens = async { Ok(chunks.map(|chunk| chunk.unwrap().len()).collect().await) };
            crate::runtime::block_on(lens).unwrap()
        };
        assert_eq!(lens(&limit), [CHUNK, CHUNK, 150_000 - 2 * CHUNK]);
        limit.set(Some(500_000));
        assert_eq!(lens(&limit), [50_000; 3]);
        assert_eq!(limit.taken(), 300_000);
        for (rate, len) in [(1, LEAST_CHUNK), (100 << 10, 10 << 10), (1 << 30, CHUNK)] {
            limit.set(Some(rate));
            assert_eq!(chunk_len(&limit), len);
        }
    }
}
