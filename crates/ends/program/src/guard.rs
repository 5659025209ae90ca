//! A process that outlives this one and then ends a program, all processes of its group at once.
//!
//! A process that is killed closes its end of each pipe, and a program that reads from it would take that for the end of
//! its input. So the guard holds a copy of that end. It leads the process group of the program, and waits on a pipe of
//! its own, which ends when this process does, in whatever way. Then it kills the group, itself included: no process of
//! it runs on to see the end of the input.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use haul_core::{Error, Result, Side};
use rustix::process::{Pid, Signal, kill_process_group};

/// The first line of its input closes the copy; the end of its input kills the group.
const SCRIPT: &str = "trap '' HUP INT QUIT TERM; read -r word && exec >&- && read -r word || kill -s KILL 0";

/// A guard that runs. Dropping it kills the group.
pub(crate) struct ProgramGuard {
    child: Child,
    ended: bool,
}

impl ProgramGuard {
    /// Starts a guard that holds `copy` open.
    ///
    /// # Errors
    /// The error of starting it.
    pub(crate) fn start(copy: Option<OwnedFd>) -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        command.stdout(copy.map_or_else(Stdio::null, Stdio::from));
        let child = command.spawn();
        let child = child.map_err(|error| Error::io(Side::Local, "start the guard of a program", &error))?;
        Ok(Self { child, ended: false })
    }

    /// Its process group.
    pub(crate) fn group(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(i32::MAX)
    }

    /// Lets it close its copy.
    ///
    /// # Errors
    /// If it does not live any more.
    pub(crate) fn release(&mut self) -> std::io::Result<()> {
        self.child.stdin.as_mut().map_or(Ok(()), |input| input.write_all(b"\n"))
    }

    /// Kills the group.
    pub(crate) fn kill(&self) {
        // It is the leader and was not waited for, so nobody else has its number.
        if let Some(group) = Pid::from_raw(self.group()).filter(|_| !self.ended) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Closes the input of the guard, as the system does when this process is killed.
    #[cfg(test)]
    pub(crate) fn abandon(mut self) {
        self.child.stdin = None;
        let _ = self.child.wait();
        self.ended = true;
    }

    /// The program has ended: ends the guard alone. Processes that the program has left run on.
    pub(crate) fn end(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.ended = true;
    }
}

impl Drop for ProgramGuard {
    fn drop(&mut self) {
        if !self.ended {
            self.kill();
            let _ = self.child.wait();
        }
    }
}
