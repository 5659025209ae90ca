//! `haul completions`.

use clap_complete::Shell;
use haul_core::Result;

use super::print::print;
use crate::args::command;
use crate::exit_code::Exit;

/// Prints the completion script of a shell.
///
/// # Errors
/// The error of writing it.
pub(super) fn run(shell: Shell) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "haul", &mut script);
    print(&script)
}
