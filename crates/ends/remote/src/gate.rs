//! Holds back the search for a direct connection.

use haul_core::sync::{Condvar, Mutex};
use std::sync::Arc;

/// Holds back a search until it is known whether it is needed.
#[derive(Clone)]
pub(super) struct Gate(Arc<(Mutex<Passage>, Condvar)>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Passage {
    Shut,
    Open,
    /// The session has ended.
    Never,
}

impl Gate {
    pub(super) fn new(open: bool) -> Self {
        let passage = if open { Passage::Open } else { Passage::Shut };
        Self(Arc::new((Mutex::new(passage), Condvar::new())))
    }

    pub(super) fn open(&self) {
        self.set(Passage::Open);
    }

    /// The session has ended: nobody waits any more.
    pub(super) fn end(&self) {
        self.set(Passage::Never);
    }

    fn set(&self, to: Passage) {
        let mut passage = self.0.0.lock();
        if *passage != Passage::Never {
            *passage = to;
        }
        self.0.1.notify_all();
    }

    /// Waits until it opens. `false`: it never will.
    pub(super) fn pass(&self) -> bool {
        let passage = self.0.0.lock();
        let shut = |passage: &mut Passage| *passage == Passage::Shut;
        *self.0.1.wait_while(passage, shut) == Passage::Open
    }
}
