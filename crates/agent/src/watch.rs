//! Reports operations of the file system that hang. The local end asks in advance: once all connections wait for a sink
//! that hangs, this end reads no more requests.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use haul_core::HungOperation;
use haul_wire::{MAX_STUCK, Response, RootId};

use crate::reply::ReplyDuty;
use crate::session::ServerSession;

/// How often to check.
const LOOK: Duration = Duration::from_millis(250);

/// Answers as soon as the first operation that has run for `timeout` is another one than `known`, or as operations begin
/// or cease to wait for the operation limit. Runs on a thread of its own, as all workers may hang.
pub(crate) fn watch(
    session: &Arc<ServerSession>,
    reply: ReplyDuty,
    root: RootId,
    timeout: Duration,
    known: Option<HungOperation>,
    held_by_iops: bool,
) {
    let session = Arc::downgrade(session);
    let look = move || {
        while let Some(session) = session.upgrade()
            && !reply.is_abandoned()
        {
            let source = session.source(root).map(|source| (source.hung(timeout), source.is_held_by_iops()));
            let sink = || session.sink(root).map(|sink| (sink.hung(timeout), sink.is_held_by_iops()));
            let Some((mut hung, held)) = source.or_else(sink) else {
                return reply.send(&Response::Gone);
            };
            if hung.first() != known.as_ref() || held != held_by_iops {
                hung.truncate(MAX_STUCK);
                return reply.send(&Response::HungOperation { hung, held_by_iops: held });
            }
            drop(session);
            thread::sleep(LOOK.min(timeout));
        }
    };
    // If the system refuses a thread, the reply is dropped, and the request fails.
    let _ = thread::Builder::new().name("haul-watch".to_owned()).spawn(look);
}
