//! What a file system at the far end does not answer, asked for beside everything else.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use haul_core::Stuck;
use haul_wire::{Request, Response, RootId};

use super::session::{Pick, Session};

/// It is asked again after this part of the patience that there is.
const PART: u32 = 4;

/// What the far end told last. It is asked on a thread of its own: who wants to know must never wait.
#[derive(Default)]
pub(super) struct Watch(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    told: Vec<Stuck>,
    /// When it was asked last.
    asked: Option<Instant>,
    is_asking: bool,
}

impl Watch {
    /// What has been under way for so long at `root`, as far as is known; asks again if that is due.
    pub(super) fn stuck(&self, session: &Arc<Session>, root: RootId, patience: Duration) -> Vec<Stuck> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = state.asked.is_none_or(|asked| asked.elapsed() >= patience / PART);
        if is_due && !state.is_asking {
            state.asked = Some(Instant::now());
            let (own, session) = (Arc::clone(&self.0), Arc::clone(session));
            let ask = move || {
                let answer = session.call(&Request::Stuck { root, patience }, Pick::Small, &|| None);
                let mut state = own.lock().unwrap_or_else(PoisonError::into_inner);
                state.is_asking = false;
                if let Ok((Response::Stuck(told), _)) = answer {
                    let name = session.dialer.name();
                    state.told = told.into_iter().map(|stuck| at(&name, stuck)).collect();
                }
            };
            state.is_asking = thread::Builder::new().name("haul-watch".to_owned()).spawn(ask).is_ok();
        }
        state.told.clone()
    }
}

/// With the name of the machine before the path.
fn at(name: &str, stuck: Stuck) -> Stuck {
    let path = [name.as_bytes(), b":", &stuck.path].concat();
    Stuck { path, ..stuck }
}
