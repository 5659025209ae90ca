//! Reports the standard error of the program of a root.

use std::sync::Arc;
use std::thread;

use haul_core::Said;
use haul_wire::{Response, RootId};

use crate::reply::ReplyDuty;
use crate::session::ServerSession;

/// Answers as soon as there is something to say. Runs on a thread of its own, as a program may be silent for hours.
pub(crate) fn said(session: &Arc<ServerSession>, reply: ReplyDuty, root: RootId, from: u64) {
    let session = Arc::downgrade(session);
    let listen = move || {
        while let Some(session) = session.upgrade()
            && !reply.is_abandoned()
        {
            let source = session.source(root).map(|source| source.said(from));
            let sink = || session.sink(root).map(|sink| sink.said(from));
            match source.or_else(sink) {
                None => return reply.send(&Response::Gone),
                Some(Err(error)) => return reply.send(&Response::Failed(error)),
                Some(Ok(Said { text, ended: false })) if text.is_empty() => {}
                Some(Ok(said)) => return reply.send(&Response::Said(said)),
            }
        }
    };
    // If the system refuses a thread, the reply is dropped, and the request fails.
    let _ = thread::Builder::new().name("haul-said".to_owned()).spawn(listen);
}
