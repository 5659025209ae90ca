//! Texts on standard output.

use crate::exit_code::Exit;
use crate::render::Lines;

/// Prints a text that is all that a command prints.
pub(super) fn print(text: &[u8]) -> Exit {
    let lines = Lines::stdout();
    lines.write(text);
    lines.flush();
    if lines.is_closed() { Exit::Incomplete } else { Exit::Done }
}
