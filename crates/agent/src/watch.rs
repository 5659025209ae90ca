//! Telling the local end what a file system here does not answer. It has asked beforehand: once all connections wait for a sink
//! that hangs, nothing more is read from them.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use haul_core::HungOperation;
use haul_wire::{MAX_STUCK, Response, RootId};

use crate::connection::Reply;
use crate::hub::Hub;

/// How often it is looked, at least.
const LOOK: Duration = Duration::from_millis(250);

/// Answers as soon as the first operation that has been under way for so long is not the one that is known, on a thread
/// of its own: all workers may be waiting for what is told of.
pub(crate) fn watch(
    hub: &Arc<Hub>,
    reply: Reply,
    root: RootId,
    patience: Duration,
    known: Option<HungOperation>,
) {
    let hub = Arc::downgrade(hub);
    let look = move || {
        while let Some(hub) = hub.upgrade()
            && !reply.is_of_no_use()
        {
            let source = hub.source(root).map(|source| source.hung(patience));
            let Some(mut hung) = source.or_else(|| hub.sink(root).map(|sink| sink.hung(patience))) else {
                return reply.send(&Response::Gone);
            };
            if hung.first() != known.as_ref() {
                hung.truncate(MAX_STUCK);
                return reply.send(&Response::HungOperation(hung));
            }
            drop(hub);
            thread::sleep(LOOK.min(patience));
        }
    };
    // Without a thread the reply is dropped, and that is answered.
    let _ = thread::Builder::new().name("haul-watch".to_owned()).spawn(look);
}
