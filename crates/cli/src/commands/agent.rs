//! `haul agent`: the far end.

use haul_core::Result;

use crate::exit_code::Exit;

/// Serves the near end over standard input and output.
///
/// # Errors
/// If there is none.
pub(super) fn run() -> Result<Exit> {
    haul_agent::run().map(|()| Exit::Done)
}
