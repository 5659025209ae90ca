//! Texts on standard output.

use crate::exit_code::Exit;
use crate::render::OutputLines;

/// Prints a text that is all that a command prints.
pub(super) fn print(text: &[u8]) -> Exit {
    let lines = OutputLines::stdout();
    lines.write(text);
    lines.flush();
    if lines.is_closed() { Exit::Incomplete } else { Exit::Done }
}
