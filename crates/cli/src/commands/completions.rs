//! `haul completions`.

use clap_complete::Shell;
use haul_core::Result;

use crate::args::command;
use crate::exit_code::Exit;
use crate::render::Lines;

/// Prints the script for a shell.
///
/// # Errors
/// Never: it is a command like the others.
pub(super) fn run(shell: Shell) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "haul", &mut script);
    let lines = Lines::stdout();
    lines.write(&script);
    lines.flush();
    Ok(if lines.is_closed() { Exit::Incomplete } else { Exit::Done })
}
