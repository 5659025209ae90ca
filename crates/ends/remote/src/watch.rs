//! Watches for file-system operations at the remote end that hang. The question is sent beforehand and answered when there
//! is something to report: a remote end that waits for its file system may read nothing more, so a later question would not
//! be read.

use haul_core::sync::Mutex;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use haul_core::HungOperation;
use haul_wire::{Request, Response, RootId};

use super::session::Session;
use super::state::Pick;

/// The last report of the remote end. A thread of its own asks for it, so that no caller waits.
#[derive(Default)]
pub(super) struct Watch(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    reported: Vec<HungOperation>,
    is_asking: bool,
}

impl Watch {
    /// The operations at `root` that hang for `timeout`, as far as the remote end has reported them. Starts the thread
    /// that asks.
    pub(super) fn hung(&self, session: &Arc<Session>, root: RootId, timeout: Duration) -> Vec<HungOperation> {
        let mut state = self.0.lock();
        if !state.is_asking {
            let (own, session) = (Arc::clone(&self.0), Arc::clone(session));
            let ask = move || {
                let lock = || own.lock();
                let mut known = None;
                loop {
                    let request = Request::HungOperation { root, timeout, known: known.clone() };
                    let Ok((Response::HungOperation(reported), _)) =
                        session.call(&request, Pick::Small, &|| None)
                    else {
                        break;
                    };
                    known = reported.first().cloned();
                    let name = session.dialer.name();
                    lock().reported = reported.into_iter().map(|hung| at(&name, hung)).collect();
                }
                // The remote process may have been started again; the next caller asks again.
                *lock() = State::default();
            };
            state.is_asking = thread::Builder::new().name("haul-watch".to_owned()).spawn(ask).is_ok();
        }
        state.reported.clone()
    }
}

/// Puts the name of the host before the path.
fn at(name: &str, hung: HungOperation) -> HungOperation {
    let path = [name.as_bytes(), b":", &hung.path].concat();
    HungOperation { path, ..hung }
}
