//! Starts programs.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use haul_core::path::printable;
use haul_core::{Error, Program, Result, Side};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::guard::ProgramGuard;
use crate::heard::Heard;

/// Characters that make a single word a command line.
const OF_A_SHELL: &[u8] = b" \t\n|&;<>()$`";

/// How a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunMode {
    /// On the machine and terminal of the user: beside the stream, it has the standard input and output of haul.
    Here,
    /// As [`RunMode::Here`], but haul's standard output is taken: the program's output counts as its standard error.
    Quietly,
    /// For another machine: it has no input beside the stream, and its output counts as its standard error.
    There,
}

/// The command of a program. A single word that a shell would split or interpret is run by `bash -o pipefail -c`.
#[must_use]
pub fn command(program: &Program) -> Command {
    let words: Vec<&OsStr> = program.words.iter().map(|word| OsStr::from_bytes(word)).collect();
    match words.as_slice() {
        [line] if line.as_bytes().iter().any(|byte| OF_A_SHELL.contains(byte)) => {
            let mut bash = Command::new("bash");
            // Not every sh has pipefail. Without it, a failed command at the start of a pipe would count as success.
            bash.args(["-o", "pipefail", "-c"]).arg(line);
            bash
        }
        [] => Command::new(""),
        [name, rest @ ..] => {
            let mut own = Command::new(name);
            own.args(rest);
            own
        }
    }
}

/// The name of a program for messages.
#[must_use]
pub fn named(program: &Program) -> String {
    program.words.iter().map(|word| printable(word)).collect::<Vec<_>>().join(" ")
}

/// Gives a program its standard error, and its standard output too if that is `printed`.
///
/// # Errors
/// The error of making a pipe.
pub(crate) fn listen(command: &mut Command, prints: bool) -> Result<std::sync::Arc<Heard>> {
    let failed = |error: std::io::Error| Error::io(Side::Local, "make a pipe", &error);
    let (from, to) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    if prints {
        command.stdout(Stdio::from(to.try_clone().map_err(failed)?));
    }
    command.stderr(Stdio::from(to));
    Heard::listen(from)
}

/// Lets a guard end the program with its whole process group.
pub(crate) fn join(command: &mut Command, guard: &ProgramGuard) {
    command.process_group(guard.group());
}
