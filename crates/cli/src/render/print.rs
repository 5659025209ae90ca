//! Single messages on standard error.

use std::io::{self, Write};

use haul_core::Error;

/// Prints an error and its hint to standard error.
pub(crate) fn print_error(error: &Error) {
    let mut text = format!("haul: {error}\n");
    if let Some(hint) = error.hint() {
        text.push_str(&format!("hint: {hint}\n"));
    }
    say(&text);
}

/// Prints one line to standard error, with control characters escaped.
pub(crate) fn print_line(line: &str) {
    say(&format!("haul: {}\n", haul_core::path::printable(line.as_bytes())));
}

/// Writes to standard error. Ignores errors: there is no other place to report them.
pub(super) fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
