//! Files that changed at the source during the run.
//!
//! A write of the earlier state can still arrive: over a connection that was given up, or from a thread that hung in the
//! file system. It must not replace the later state.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::entry::Identity;
use haul_core::sync::{Condvar, Mutex};
use haul_core::{Entry, Offer, RelPath};

/// The current states of the files that changed.
#[derive(Default)]
pub(crate) struct Superseded {
    state: Mutex<SupersededState>,
    /// Signals that a file has been published.
    published: Condvar,
    /// A file has changed. Until then nothing has to be looked up.
    any: AtomicBool,
}

#[derive(Default)]
struct SupersededState {
    /// The state that may be written; `None` until the file is offered again.
    current: HashMap<RelPath, Option<Identity>>,
    /// The number of renames that have begun.
    publishing: HashMap<RelPath, usize>,
}

impl SupersededState {
    fn is_outdated(&self, entry: &Entry) -> bool {
        self.current.get(&entry.path).is_some_and(|current| *current != Some(entry.identity()))
    }
}

impl Superseded {
    /// The file has changed: no state of it may be written until it is offered again. Waits for a rename that has begun.
    pub(crate) fn discard(&self, path: &RelPath) {
        let mut state = self.state.lock();
        self.any.store(true, Ordering::Release);
        state.current.insert(path.clone(), None);
        drop(self.published.wait_while(state, |state| state.publishing.contains_key(path)));
    }

    /// The source has these states now.
    pub(crate) fn offered(&self, offers: &[Offer]) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.state.lock();
        for Offer { entry, .. } in offers {
            if let Some(current) = state.current.get_mut(&entry.path) {
                *current = Some(entry.identity());
            }
        }
    }

    /// Whether a later state of the file was announced.
    pub(crate) fn is_outdated(&self, entry: &Entry) -> bool {
        self.any.load(Ordering::Acquire) && self.state.lock().is_outdated(entry)
    }

    /// Calls `publish` unless a later state of the file was announced.
    pub(crate) fn publish<T>(&self, entry: &Entry, publish: impl FnOnce() -> T) -> Option<T> {
        {
            let mut state = self.state.lock();
            if state.is_outdated(entry) {
                return None;
            }
            *state.publishing.entry(entry.path.clone()).or_default() += 1;
        }
        let _published = Published { superseded: self, path: &entry.path };
        Some(publish())
    }
}

/// Reports that a file was published, also after a panic.
struct Published<'a> {
    superseded: &'a Superseded,
    path: &'a RelPath,
}

impl Drop for Published<'_> {
    fn drop(&mut self) {
        let mut state = self.superseded.state.lock();
        if let Some(count) = state.publishing.get_mut(self.path) {
            *count -= 1;
            if *count == 0 {
                state.publishing.remove(self.path);
            }
        }
        drop(state);
        self.superseded.published.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    fn entry(len: u64) -> Entry {
        Entry::new(RelPath::new(b"f").unwrap(), haul_core::EntryKind::File, len)
    }

    fn offer(superseded: &Superseded, len: u64) {
        superseded.offered(&[Offer { entry: Arc::new(entry(len)), digest: None }]);
    }

    #[test]
    fn an_earlier_state_is_neither_written_nor_published() {
        let superseded = Superseded::default();
        assert_eq!(superseded.publish(&entry(1), || ()), Some(()), "nothing has changed");
        superseded.discard(&entry(1).path);
        assert!(superseded.is_outdated(&entry(1)) && superseded.is_outdated(&entry(2)), "not offered yet");
        offer(&superseded, 2);
        assert!(superseded.is_outdated(&entry(1)));
        assert_eq!(superseded.publish(&entry(1), || ()), None);
        assert!(!superseded.is_outdated(&entry(2)));
        assert_eq!(superseded.publish(&entry(2), || ()), Some(()));
        offer(&superseded, 3);
        assert_eq!(superseded.publish(&entry(2), || ()), None, "it changed again");
    }

    #[test]
    fn a_rename_that_has_begun_is_waited_for() {
        let superseded = Superseded::default();
        let (begun, wait) = std::sync::mpsc::channel();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                superseded.publish(&entry(1), || {
                    // A copy of the same state that was sent again is published meanwhile.
                    superseded.publish(&entry(1), || ());
                    begun.send(()).unwrap();
                    std::thread::sleep(Duration::from_millis(50));
                    done.store(true, Ordering::Release);
                });
            });
            wait.recv().unwrap();
            superseded.discard(&entry(1).path);
            assert!(done.load(Ordering::Acquire));
        });
    }
}
