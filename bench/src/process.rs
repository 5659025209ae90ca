//! Starts commands in a namespace and a cgroup, and ends them.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::kill::kill;
use crate::link::netns::Netns;
use crate::measure::HostProcesses;
use crate::stop::Stop;

/// A running command. Killed on drop.
pub(crate) struct RunningCommand {
    pid: u32,
    ended: Receiver<(Instant, std::io::Result<ExitStatus>)>,
    status: Option<(Instant, ExitStatus)>,
}

/// Where a command runs.
#[derive(Clone, Copy)]
pub(crate) struct CommandPlace<'a> {
    /// The network namespace.
    pub(crate) netns: Option<&'a Netns>,
    /// The side that it belongs to.
    pub(crate) side: Option<&'a HostProcesses>,
    /// The file for its output.
    pub(crate) log: &'a Path,
}

impl RunningCommand {
    /// Starts a shell command.
    pub(crate) fn shell(text: &str, place: CommandPlace) -> Result<Self> {
        Self::program("/bin/bash", ["-o", "pipefail", "-c", text], place)
    }

    /// Starts a program.
    pub(crate) fn program<A: AsRef<OsStr>>(
        program: &str,
        arguments: impl IntoIterator<Item = A>,
        place: CommandPlace,
    ) -> Result<Self> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(place.log)
            .with_context(|| format!("cannot write {}", place.log.display()))?;
        let mut command = Command::new(program);
        // haul is measured without the settings of this machine's user.
        command
            .args(arguments)
            .env("HAUL_CONFIG", "")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0);
        let netns = place.netns.map(|ns| ns.file().try_clone()).transpose()?;
        let group = place.side.and_then(HostProcesses::entrance).transpose()?;
        // SAFETY: the function makes system calls only, on files that are open already.
        unsafe { command.pre_exec(move || enter(netns.as_ref(), group.as_ref())) };
        let mut child = command.spawn().with_context(|| format!("cannot start {program}"))?;
        let pid = child.id();
        if let Some(side) = place.side {
            side.add_root(pid);
        }
        let (send, ended) = channel();
        std::thread::Builder::new().name("wait".to_owned()).spawn(move || {
            let status = child.wait();
            let _ = send.send((Instant::now(), status));
        })?;
        Ok(Self { pid, ended, status: None })
    }

    /// The process ID.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits for the end. Returns its time and status, or `None` on timeout.
    pub(crate) fn wait_for(&mut self, time: Duration) -> Result<Option<(Instant, ExitStatus)>> {
        if self.status.is_none() {
            match self.ended.recv_timeout(time) {
                Ok((when, status)) => self.status = Some((when, status?)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("lost sight of process {}", self.pid),
            }
        }
        Ok(self.status)
    }

    /// Kills the command if it still runs.
    pub(crate) fn kill(&mut self) {
        if self.status.is_none() && matches!(self.wait_for(Duration::ZERO), Ok(None)) {
            kill(self.pid, Signal::KILL);
            let _ = self.wait_for(Duration::from_secs(5));
        }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs between fork and exec.
fn enter(netns: Option<&File>, mut group: Option<&File>) -> std::io::Result<()> {
    // Ends the process even if this program is killed.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if let Some(group) = &mut group {
        group.write_all(b"0")?;
    }
    if let Some(netns) = netns {
        move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network))?;
    }
    Ok(())
}

/// Runs a command outside of the measurement. Returns its output.
pub(crate) fn run_aside(text: &str, log: &Path, stop: &Stop) -> Result<String> {
    run_aside_at(text, CommandPlace { netns: None, side: None, log }, stop)
}

/// The same in a network namespace.
pub(crate) fn run_aside_in(netns: &Netns, text: &str, log: &Path, stop: &Stop) -> Result<String> {
    run_aside_at(text, CommandPlace { netns: Some(netns), side: None, log }, stop)
}

/// The same at any place. Processes that it leaves behind belong to the side of the place.
pub(crate) fn run_aside_at(text: &str, place: CommandPlace, stop: &Stop) -> Result<String> {
    let log = place.log;
    let _ = std::fs::remove_file(log);
    let mut running = RunningCommand::shell(text, place)?;
    loop {
        stop.check()?;
        if let Some((_, status)) = running.wait_for(Duration::from_millis(50))? {
            let output = std::fs::read_to_string(log).unwrap_or_default();
            ensure!(status.success(), "`{text}` failed ({status}): {}", last_lines(&output));
            return Ok(output);
        }
    }
}

/// The last lines of the output of a program, on one line.
pub(crate) fn last_lines(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().rev().map(str::trim).filter(|l| !l.is_empty()).take(3).collect();
    lines.reverse();
    let mut text = lines.join(" | ");
    if let Some((at, _)) = text.char_indices().nth(300) {
        text.truncate(at);
    }
    text
}

/// Whether a TCP socket listens at the port in the network namespace of `pid`.
pub(crate) fn listens(pid: u32, port: u16) -> bool {
    let Ok(table) = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")) else {
        return false;
    };
    let port = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let local = fields.next().unwrap_or_default();
        let state = fields.nth(1).unwrap_or_default();
        local.ends_with(&port) && state == "0A"
    })
}

/// Waits until something listens at the port.
pub(crate) fn await_listener(running: &mut RunningCommand, port: u16, stop: &Stop) -> Result<()> {
    let start = Instant::now();
    while !listens(running.pid, port) {
        stop.check()?;
        ensure!(start.elapsed() < Duration::from_secs(10), "nothing listens at port {port}");
        if let Some((_, status)) = running.wait_for(Duration::from_millis(2))? {
            bail!("the program that should listen at port {port} ended ({status})");
        }
    }
    Ok(())
}
