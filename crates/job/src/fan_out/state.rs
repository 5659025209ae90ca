//! The sinks of several destinations, and which of them are lost.

use std::sync::Arc;

use haul_core::sync::Mutex;
use haul_core::{BufferPool, Error, Location, Note, Side, Sink};

use super::files::NeededFiles;
use super::left::LeftNames;
use crate::mistakes::at_host;

/// Passes each call to several sinks.
pub(crate) struct FanOut {
    /// `None`: it could not be opened.
    pub(super) sinks: Vec<Option<Arc<dyn Sink>>>,
    pub(super) shared: Arc<SharedFanOut>,
    /// Buffers for copies of content.
    pub(super) pool: BufferPool,
}

/// The state without the sinks. A write that a sink has not answered keeps it, and must not keep the sink.
pub(super) struct SharedFanOut {
    pub(super) ends: Vec<EndState>,
    pub(super) files: Mutex<NeededFiles>,
    pub(super) left: Mutex<LeftNames>,
    pub(super) note: Note,
}

pub(super) struct EndState {
    pub(super) at: Location,
    /// Why it takes nothing more.
    pub(super) lost: Mutex<Option<Error>>,
}

impl EndState {
    fn is_lost(&self) -> bool {
        self.lost.lock().is_some()
    }
}

impl SharedFanOut {
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    fn is_lost(&self, end: usize) -> bool {
        self.ends.get(end).is_none_or(EndState::is_lost)
    }

    /// An error of a destination, with the host in the name of an entry.
    pub(super) fn named(&self, end: usize, error: Error) -> Error {
        let Some(end) = self.ends.get(end) else { return error };
        at_host(error, Side::Destination, &end.at)
    }

    /// An end takes nothing more.
    pub(super) fn lose(&self, end: usize, error: &Error) {
        let Some(lost) = self.ends.get(end) else { return };
        let mut failure = lost.lost.lock();
        if failure.is_some() {
            return;
        }
        *failure = Some(error.clone());
        drop(failure);
        self.tell_lost(lost);
    }

    /// Tells that an end was lost. The run ends with the error of the first one if none is left.
    pub(super) fn tell_lost(&self, end: &EndState) {
        let Some(error) = end.lost.lock().clone() else { return };
        let is_first = self.ends.first().is_some_and(|first| std::ptr::eq(first, end));
        if self.ends.iter().any(|other| !other.is_lost()) {
            (self.note)(&format!("{}: {error}; the other destinations go on", end.at));
        } else if !is_first {
            (self.note)(&format!("{}: {error}", end.at));
        }
    }

    /// The error of the first end that was lost.
    pub(super) fn lost_error(&self) -> Option<Error> {
        self.ends.iter().find_map(|end| end.lost.lock().clone())
    }

    /// The error of the first end, if all are lost.
    pub(super) fn error_of_all(&self) -> Option<Error> {
        self.lost_error().filter(|_| self.ends.iter().all(EndState::is_lost))
    }
}

impl FanOut {
    /// The sinks that take more, with their numbers.
    pub(super) fn open(&self) -> impl Iterator<Item = (usize, &Arc<dyn Sink>)> {
        let sinks = self.sinks.iter().enumerate();
        sinks
            .filter_map(|(end, sink)| Some((end, sink.as_ref()?)))
            .filter(|(end, _)| !self.shared.is_lost(*end))
    }
}
