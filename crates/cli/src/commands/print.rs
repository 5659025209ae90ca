//! Texts on standard output.

use haul_core::Result;

use crate::exit_code::Exit;
use crate::render::OutputLines;

/// Prints a text that is all that a command prints.
///
/// # Errors
/// The write error, if there was one other than a closed pipe.
pub(super) fn print(text: &[u8]) -> Result<Exit> {
    let lines = OutputLines::stdout();
    lines.write(text);
    lines.end(Exit::Done)
}
