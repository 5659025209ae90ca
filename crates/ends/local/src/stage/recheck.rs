//! Whether the content that an interrupted run has left of a large file was verified.

use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::sync::Mutex;

use haul_core::{ChainingValue, Error, ErrorKind, Retry, Side, SinkOptions};

use super::journal::JournalContent;
use crate::ticket::PendingSlice;

/// The slices of one file that are to be read back.
pub(crate) struct Recheck {
    state: Mutex<RecheckState>,
    /// The slices were synced when they were recorded.
    pub(crate) synced: bool,
    /// Slices that were synced are not read back.
    needless: bool,
    /// There were slices to be read back.
    is_due: AtomicBool,
}

enum RecheckState {
    /// All slices were as recorded.
    Passed,
    /// The slices that are left, and the written slices that wait for the end.
    Running(Vec<(u32, ChainingValue)>, Vec<PendingSlice>),
    /// The number of slices that differ from the record.
    Failed(usize),
    Stopped,
}

/// How reading back ends.
#[derive(Clone, Copy)]
pub(crate) enum RecheckEnd {
    Passed,
    /// The number of slices that differ from the record.
    Failed(usize),
    Stopped,
}

impl Recheck {
    /// Slices that were not synced are read back in any case; those of a stream that is growing once they count.
    pub(crate) fn new(found: &JournalContent, options: &SinkOptions, is_growing: bool) -> Self {
        let needless = found.synced && (!options.recheck || options.verify_disk);
        let (state, is_due) = (Mutex::new(RecheckState::Passed), AtomicBool::new(false));
        let recheck = Self { state, synced: found.synced, needless, is_due };
        if !is_growing {
            recheck.begin(found.slices.clone());
        }
        recheck
    }

    /// These slices are to be read back, if any slices are.
    pub(crate) fn begin(&self, slices: Vec<(u32, ChainingValue)>) {
        if !slices.is_empty() && !self.needless {
            self.is_due.store(true, Ordering::Relaxed);
            *self.state.lock() = RecheckState::Running(slices, Vec::new());
        }
    }

    pub(crate) fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Relaxed)
    }

    pub(crate) fn is_passed(&self) -> bool {
        matches!(*self.state.lock(), RecheckState::Passed)
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(*self.state.lock(), RecheckState::Running(..))
    }

    /// Whether a complete file may have to wait for the end.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_due() && !matches!(*self.state.lock(), RecheckState::Stopped)
    }

    /// The error of a file with slices that differ from the record.
    pub(crate) fn failure(&self) -> Option<Error> {
        let RecheckState::Failed(count) = *self.state.lock() else { return None };
        let cause = format!("{count} slices of an interrupted run have changed since");
        let error = Error::new(ErrorKind::Corrupt, Side::Destination, "read back", cause);
        Some(error.with_retry(Retry::Anew))
    }

    /// Takes the slices that are to be read back, once.
    pub(crate) fn take_slices(&self) -> Vec<(u32, ChainingValue)> {
        match &mut *self.state.lock() {
            RecheckState::Running(slices, _) => std::mem::take(slices),
            _ => Vec::new(),
        }
    }

    /// Keeps a written slice until the end. Gives it back if that has come.
    pub(crate) fn hold(&self, pending: PendingSlice) -> Option<PendingSlice> {
        match &mut *self.state.lock() {
            RecheckState::Running(_, held) => {
                held.push(pending);
                None
            }
            _ => Some(pending),
        }
    }

    /// Ends reading back, unless it has ended. Gives the written slices that waited for the end.
    pub(crate) fn end(&self, end: RecheckEnd) -> Vec<PendingSlice> {
        let mut state = self.state.lock();
        match &mut *state {
            RecheckState::Running(_, held) => {
                let held = std::mem::take(held);
                *state = match end {
                    RecheckEnd::Passed => RecheckState::Passed,
                    RecheckEnd::Failed(count) => RecheckState::Failed(count),
                    RecheckEnd::Stopped => RecheckState::Stopped,
                };
                held
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticket::WriteTicket;

    fn found(synced: bool) -> JournalContent {
        JournalContent { slices: vec![(3, ChainingValue::default())], synced }
    }

    fn options(recheck: bool, verify_disk: bool) -> SinkOptions {
        SinkOptions { recheck, verify_disk, ..SinkOptions::default() }
    }

    fn pending() -> PendingSlice {
        PendingSlice { ticket: WriteTicket::new(1, Box::new(|_| ())), at: 0 }
    }

    #[test]
    fn slices_are_read_back_if_unsynced_or_asked_for() {
        for (synced, recheck, verify_disk, is_due) in [
            (true, true, false, true),
            (true, false, false, false),
            (true, true, true, false),
            (false, false, false, true),
            (false, true, true, true),
        ] {
            let recheck = Recheck::new(&found(synced), &options(recheck, verify_disk), false);
            assert_eq!((recheck.is_due(), recheck.is_passed()), (is_due, !is_due));
        }
        assert!(Recheck::new(&JournalContent::default(), &options(true, false), false).is_passed());
    }

    #[test]
    fn written_slices_wait_for_the_end_and_the_first_end_counts() {
        let recheck = Recheck::new(&found(false), &options(true, false), false);
        assert_eq!(recheck.take_slices().len(), 1);
        assert_eq!(recheck.take_slices().len(), 0);
        assert!(recheck.is_running() && recheck.is_awaited());
        assert!(recheck.hold(pending()).is_none());
        assert_eq!(recheck.end(RecheckEnd::Failed(2)).len(), 1);
        assert_eq!(recheck.end(RecheckEnd::Passed).len(), 0);
        assert!(recheck.hold(pending()).is_some() && !recheck.is_passed());
        let error = recheck.failure().unwrap();
        assert_eq!((error.kind(), error.retry()), (ErrorKind::Corrupt, Retry::Anew));
        assert!(error.cause().starts_with("2 slices"));
    }

    #[test]
    fn a_stopped_recheck_is_not_awaited() {
        let recheck = Recheck::new(&found(true), &options(true, false), false);
        recheck.end(RecheckEnd::Stopped);
        assert!(!recheck.is_awaited() && !recheck.is_passed() && recheck.failure().is_none());
    }
}
