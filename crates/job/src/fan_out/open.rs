//! Opens several destinations as one.

use std::sync::Arc;

use haul_core::buffer::BUFFER_LEN;
use haul_core::{BufferPool, ErrorKind, Links, Location, Note, Place, Result, Sink, SinkOptions};

use super::sink::FanOutEnd;
use super::state::FanOut;
use crate::ends::Ends;

/// A sink of all these destinations that can be opened, and whether the engine has to keep the rate limit.
///
/// # Errors
/// The error of the first one if none can be opened; `Usage` and `Cancelled` of any of them.
pub(crate) fn open_all(
    ends: &mut Ends,
    from: (&Location, &Place, Links),
    destinations: &[(&Location, &Place)],
    options: &SinkOptions,
    (copies, note): (&BufferPool, &Note),
) -> Result<(Arc<dyn Sink>, bool)> {
    // The connections with a remote haul keep the limit, for all bytes together.
    let mut has_peer = ends.is_peer(from.0)?;
    let mut opened = Vec::new();
    for (at, place) in destinations {
        let sink = ends.is_peer(at).and_then(|is_peer| {
            has_peer |= is_peer;
            ends.sink_of(from, at, place, options)
        });
        if let Err(error) = &sink
            && matches!(error.kind(), ErrorKind::Usage | ErrorKind::Cancelled)
        {
            return Err(error.clone());
        }
        opened.push(FanOutEnd::new(at, sink));
    }
    let sink = FanOut::new(opened, copies.clone(), Arc::clone(note))?;
    Ok((Arc::new(sink), !has_peer))
}

/// Takes the buffers for the copies that other destinations get, so that all have the same memory.
pub(crate) fn split_pool(pool: &mut BufferPool, destinations: usize) -> BufferPool {
    if destinations < 2 {
        return BufferPool::new(0);
    }
    let share = |count: usize| BufferPool::new((count * BUFFER_LEN) as u64);
    let each = pool.count() / destinations;
    let copies = share(each * (destinations - 1));
    *pool = share(each);
    copies
}
