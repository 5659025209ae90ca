//! Single messages on standard error.

use std::io::{self, Write};

use haul_core::{Error, ErrorKind, Result, Side};

use crate::standard_streams;

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

/// Prints the help or the version that a command line asks for.
///
/// # Errors
/// The write error, if there was one other than a closed pipe.
pub(crate) fn print_help(help: &clap::Error) -> Result<()> {
    if !help.use_stderr() {
        standard_streams::output().map_err(no_output)?;
    }
    match help.print().and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(no_output(error)),
        _ => Ok(()),
    }
}

/// The error of writing to standard output.
pub(super) fn no_output(cause: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, Side::Local, "write to standard output", cause.to_string())
}

/// Writes to standard error. Ignores errors: there is no other place to report them.
pub(super) fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
