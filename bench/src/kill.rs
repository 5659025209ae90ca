//! Signals to processes by their number.

use rustix::process::{Pid, Signal, kill_process};

/// Sends a signal to a process, which may have ended.
pub(crate) fn kill(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}
