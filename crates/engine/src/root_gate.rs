//! Failures before the answer about the root: if the root cannot be created, they say nothing more.

use haul_core::sync::Mutex;
use haul_core::{Error, RelPath};

/// Keeps failures until the root is answered. Nothing waits for it.
#[derive(Default)]
pub(crate) struct RootGate(Mutex<RootState>);

#[derive(Default)]
enum RootState {
    /// Failures are reported.
    #[default]
    Open,
    /// The root is not answered yet.
    Waiting(Vec<(RelPath, Error)>),
    /// The root cannot be created.
    Refused,
}

impl RootGate {
    /// The root was found, and is not answered yet. A source may report it twice: nothing that is kept is lost.
    pub(crate) fn close(&self) {
        let mut state = self.0.lock();
        if matches!(*state, RootState::Open) {
            *state = RootState::Waiting(Vec::new());
        }
    }

    /// The root cannot be created: no other failure matters.
    pub(crate) fn refuse(&self) {
        *self.0.lock() = RootState::Refused;
    }

    /// Keeps a failure, or gives it back if it is to be reported.
    pub(crate) fn keep(&self, path: &RelPath, error: Error) -> Option<Error> {
        match &mut *self.0.lock() {
            RootState::Open => Some(error),
            RootState::Waiting(kept) => {
                kept.push((path.clone(), error));
                None
            }
            RootState::Refused => None,
        }
    }

    /// The destination has answered about the root: returns the failures that were kept.
    pub(crate) fn open(&self) -> Vec<(RelPath, Error)> {
        let mut state = self.0.lock();
        match &mut *state {
            RootState::Waiting(kept) => {
                let kept = std::mem::take(kept);
                *state = RootState::Open;
                kept
            }
            RootState::Open | RootState::Refused => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::{ErrorKind, Side};

    #[test]
    fn failures_wait_for_the_root() {
        let error = || Error::new(ErrorKind::Io, Side::Destination, "make", "x");
        let path = RelPath::new(b"a").unwrap();
        let gate = RootGate::default();
        assert!(gate.keep(&path, error()).is_some() && gate.open().is_empty());
        gate.close();
        assert!(gate.keep(&path, error()).is_none());
        gate.close();
        assert_eq!((gate.open().len(), gate.keep(&path, error())), (1, Some(error())));
        gate.close();
        assert!(gate.keep(&path, error()).is_none());
        gate.refuse();
        gate.close();
        assert!(gate.open().is_empty() && gate.keep(&path, error()).is_none());
    }
}
