//! The outcomes of one write.

use haul_core::sync::Mutex;
use std::sync::Arc;

use haul_core::{Outcome, Result, WriteDone};

/// Collects the outcomes of one write, and hands them to its `done` when all are known.
pub(crate) struct WriteTicket {
    state: Mutex<TicketState>,
}

struct TicketState {
    outcomes: Vec<Option<Result<Outcome>>>,
    left: usize,
    done: Option<WriteDone>,
}

impl WriteTicket {
    pub(crate) fn new(slices: usize, done: WriteDone) -> Arc<Self> {
        let done = if slices == 0 {
            // No slice will settle it.
            done(Vec::new());
            None
        } else {
            Some(done)
        };
        let state = TicketState { outcomes: vec![None; slices], left: slices, done };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// Settles slice `at`.
    pub(crate) fn settle(&self, at: usize, outcome: Result<Outcome>) {
        let mut state = self.state.lock();
        if let Some(slot) = state.outcomes.get_mut(at)
            && slot.replace(outcome).is_none()
        {
            state.left -= 1;
        }
        if state.left == 0
            && let Some(done) = state.done.take()
        {
            let outcomes = std::mem::take(&mut state.outcomes).into_iter().flatten().collect();
            drop(state);
            done(outcomes);
        }
    }
}

/// A slice of a write whose outcome is not known yet.
pub(crate) struct PendingSlice {
    pub(crate) ticket: Arc<WriteTicket>,
    /// The number of the slice in the write.
    pub(crate) at: usize,
}

impl PendingSlice {
    pub(crate) fn settle(&self, outcome: Result<Outcome>) {
        self.ticket.settle(self.at, outcome);
    }
}
