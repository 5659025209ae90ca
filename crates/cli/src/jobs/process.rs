//! Identifies the process of a record, also if its process ID is reused.

use std::fs;

use haul_core::path::printable;
use serde::{Deserialize, Serialize};

/// A globally unique process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessIdentity {
    /// The host name.
    pub(crate) host: String,
    /// The boot ID of the kernel.
    pub(crate) boot: String,
    /// The job number.
    pub(crate) pid: u32,
    /// The start time, in clock ticks since boot.
    pub(crate) ticks: u64,
}

impl ProcessIdentity {
    /// The current process.
    pub(crate) fn this() -> Self {
        let pid = std::process::id();
        Self { host: host(), boot: boot(), pid, ticks: ticks(pid).unwrap_or(0) }
    }

    /// Whether the process is alive. A process on another host counts as alive.
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
    fn a_process_differs_from_another_with_the_same_id() {
        let this = ProcessIdentity::this();
        assert!(this.ticks > 0 && this.is_alive());
        assert!(!ProcessIdentity { ticks: this.ticks + 1, ..this.clone() }.is_alive());
        assert!(!ProcessIdentity { boot: "another".to_owned(), ..this.clone() }.is_alive());
        assert!(!ProcessIdentity { pid: u32::MAX, ..this.clone() }.is_alive());
        assert!(ProcessIdentity { host: "elsewhere".to_owned(), boot: String::new(), ..this }.is_alive());
    }
}
