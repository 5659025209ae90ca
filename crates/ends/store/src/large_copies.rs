//! Large files that the store copies, and the batches that wait for them.

use haul_core::sync::Mutex;
use std::collections::HashMap;

use haul_core::{Digest, RelPath, WriteDone};

/// Large files whose copies have begun.
#[derive(Default)]
pub(super) struct LargeCopies(pub(super) Mutex<HashMap<RelPath, LargeCopy>>);

pub(super) enum LargeCopy {
    /// A thread is copying it; these batches wait.
    InFlight(Vec<WriteDone>),
    Done(Option<Digest>),
}
