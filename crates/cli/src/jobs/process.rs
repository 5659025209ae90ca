//! Which process a record is of, so that it can be told from a later one with the same number.

use std::fs;

use haul_core::path::printable;
use serde::{Deserialize, Serialize};

/// A process among all of all machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    /// Its machine.
    pub(crate) host: String,
    /// When that was booted, as the kernel names it.
    pub(crate) boot: String,
    /// Its number.
    pub(crate) pid: u32,
    /// When it was started, in clock ticks since the boot.
    pub(crate) ticks: u64,
}

impl Process {
    /// This one.
    pub(crate) fn this() -> Self {
        let pid = std::process::id();
        Self { host: host(), boot: boot(), pid, ticks: ticks(pid).unwrap_or(0) }
    }

    /// Whether it lives. One on another machine is taken to live: nothing can be said of it here.
    pub(crate) fn is_alive(&self) -> bool {
        self.host != host() || self.boot == boot() && ticks(self.pid) == Some(self.ticks)
    }
}

fn host() -> String {
    printable(rustix::system::uname().nodename().to_bytes())
}

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// Field 22 of `/proc/PID/stat`, see proc(5). `None` also for a process that has ended and was not collected yet.
fn ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    // The state is field 3.
    fields.nth(22 - 4)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_another_with_its_number() {
        let this = Process::this();
        assert!(this.ticks > 0 && this.is_alive());
        assert!(!Process { ticks: this.ticks + 1, ..this.clone() }.is_alive());
        assert!(!Process { boot: "another".to_owned(), ..this.clone() }.is_alive());
        assert!(!Process { pid: u32::MAX, ..this.clone() }.is_alive());
        assert!(Process { host: "elsewhere".to_owned(), boot: String::new(), ..this }.is_alive());
    }
}
