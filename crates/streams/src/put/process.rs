//! Terminates the command that writes a stream, with all of its descendants.

use std::io;
use std::process::{Child, Command};
use std::time::Duration;

use haul_core::{Error, Side};
use rustix::process::{Pid, Signal, kill_process};

/// How long a command has to exit before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// The error of a command line `name` that could not be started.
pub fn not_started(command: &Command, name: &str, side: Side, error: &io::Error) -> Error {
    let failed = Error::io(side, "run", error).on(name);
    if error.kind() != io::ErrorKind::NotFound {
        return failed;
    }
    let program = command.get_program().to_string_lossy();
    let place = if program.contains('/') { "" } else { " in PATH" };
    Error::new(failed.kind(), side, "run", format!("there is no program {program}{place}")).on(name)
}

/// Terminates a command, then kills it if it does not exit.
pub(super) fn terminate(mut child: Child) {
    // A shell that dies does not terminate its children, so all of them are signalled.
    for pid in descendants(child.id()).into_iter().filter_map(Pid::from_raw) {
        let _ = kill_process(pid, Signal::TERM);
    }
    let begun = std::time::Instant::now();
    while begun.elapsed() < GRACE {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// A process and its descendants, as far as the kernel lists them.
fn descendants(root: u32) -> Vec<i32> {
    let mut all: Vec<i32> = i32::try_from(root).into_iter().collect();
    let mut at = 0;
    while let Some(pid) = all.get(at) {
        let children =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        all.extend(children.split_whitespace().filter_map(|child| child.parse::<i32>().ok()));
        at += 1;
    }
    all
}
