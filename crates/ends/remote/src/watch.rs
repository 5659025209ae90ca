//! Watches for file-system operations at the remote end that hang or wait for the operation limit. The question is
//! sent beforehand and answered when there is something to report: a remote end that waits for its file system may
//! read nothing more, so a later question would not be read.

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
pub(super) struct RemoteWatch(Arc<Mutex<WatchState>>);

#[derive(Default)]
struct WatchState {
    reported: Vec<HungOperation>,
    held_by_iops: bool,
    is_asking: bool,
}

impl RemoteWatch {
    /// The operations at `root` that hang for `timeout`, as far as the remote end has reported them. Starts the thread
    /// that asks.
    pub(super) fn hung(&self, session: &Arc<Session>, root: RootId, timeout: Duration) -> Vec<HungOperation> {
        let mut state = self.0.lock();
        if !state.is_asking {
            let (own, session) = (Arc::clone(&self.0), Arc::clone(session));
            let ask = move || {
                let lock = || own.lock();
                let mut known = (None, false);
                loop {
                    let (first, held_by_iops) = known;
                    let request = Request::HungOperation { root, timeout, known: first, held_by_iops };
                    let Ok(Response::HungOperation { hung, held_by_iops }) =
                        session.call(&request, Pick::Small)
                    else {
                        break;
                    };
                    known = (hung.first().cloned(), held_by_iops);
                    let name = session.dialer.name();
                    let reported = hung.into_iter().map(|hung| at(&name, hung)).collect();
                    *lock() = WatchState { reported, held_by_iops, is_asking: true };
                }
                // The remote process may have been started again; the next caller asks again.
                *lock() = WatchState::default();
            };
            state.is_asking = thread::Builder::new().name("haul-watch".to_owned()).spawn(ask).is_ok();
        }
        state.reported.clone()
    }

    /// Whether operations wait because of the limit on operations per second, as far as the remote end has reported it.
    pub(super) fn is_held_by_iops(&self) -> bool {
        self.0.lock().held_by_iops
    }
}

/// Puts the name of the host before the path.
fn at(name: &str, hung: HungOperation) -> HungOperation {
    let path = [name.as_bytes(), b":", &hung.path].concat();
    HungOperation { path, ..hung }
}
