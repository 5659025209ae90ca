//! What a file system at the remote end does not answer: asked beforehand, and answered when there is something to tell. A far
//! end that waits for its file system may read nothing more, so that a question would come too late.

use haul_core::sync::Mutex;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use haul_core::HungOperation;
use haul_wire::{Request, Response, RootId};

use super::session::{Pick, Session};

/// What the remote end told last. It is asked on a thread of its own: who wants to know never waits.
#[derive(Default)]
pub(super) struct Watch(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    told: Vec<HungOperation>,
    is_asking: bool,
}

impl Watch {
    /// What has been under way for so long at `root`, as far as the remote end told; sees to it that it will tell.
    pub(super) fn hung(
        &self,
        session: &Arc<Session>,
        root: RootId,
        patience: Duration,
    ) -> Vec<HungOperation> {
        let mut state = self.0.lock();
        if !state.is_asking {
            let (own, session) = (Arc::clone(&self.0), Arc::clone(session));
            let ask = move || {
                let lock = || own.lock();
                let mut known = None;
                loop {
                    let request = Request::HungOperation { root, patience, known: known.clone() };
                    let Ok((Response::HungOperation(told), _)) =
                        session.call(&request, Pick::Small, &|| None)
                    else {
                        break;
                    };
                    known = told.first().cloned();
                    let name = session.dialer.name();
                    lock().told = told.into_iter().map(|hung| at(&name, hung)).collect();
                }
                // It may be a remote end that was started anew: it is asked again when somebody wants to know.
                *lock() = State::default();
            };
            state.is_asking = thread::Builder::new().name("haul-watch".to_owned()).spawn(ask).is_ok();
        }
        state.told.clone()
    }
}

/// With the name of the machine before the path.
fn at(name: &str, hung: HungOperation) -> HungOperation {
    let path = [name.as_bytes(), b":", &hung.path].concat();
    HungOperation { path, ..hung }
}
