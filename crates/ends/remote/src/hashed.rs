//! The bytes that a source at the remote end has hashed.

use haul_core::sync::Mutex;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use haul_wire::{Request, Response, RootId};

use super::session::Session;
use super::state::Pick;

/// How often to ask.
const INTERVAL: Duration = Duration::from_millis(200);

/// The last answer of the remote end. A thread of its own asks, so that no caller waits.
#[derive(Default)]
pub(super) struct RemoteHashed(Arc<Mutex<HashedState>>);

#[derive(Default)]
struct HashedState {
    bytes: Option<u64>,
    is_asking: bool,
}

impl RemoteHashed {
    /// The bytes that the source at `root` has hashed, as far as the remote end has told it; `None` if it does not count
    /// them. Starts the thread that asks.
    pub(super) fn get(&self, session: &Arc<Session>, root: RootId) -> Option<u64> {
        let mut state = self.0.lock();
        if !state.is_asking {
            // No answer yet is not the same as no count.
            state.bytes = state.bytes.or(Some(0));
            let (own, session) = (Arc::clone(&self.0), Arc::clone(session));
            let ask = move || {
                while let Ok(Response::Hashed(bytes)) = session.call(&Request::Hashed { root }, Pick::Small) {
                    own.lock().bytes = bytes;
                    if session.pause(INTERVAL) {
                        break;
                    }
                }
                // The remote process may have been started again; the next caller asks again.
                own.lock().is_asking = false;
            };
            state.is_asking = thread::Builder::new().name("haul-hashed".to_owned()).spawn(ask).is_ok();
        }
        state.bytes
    }
}
