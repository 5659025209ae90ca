//! Whether ssh asks the person for something: it does so on the terminal, which it opens for that and closes after.

use std::collections::VecDeque;
use std::fs;
use std::sync::Weak;
use std::thread;
use std::time::Duration;

use super::config::Note;
use super::process::Process;

/// How long a login may take before it is said what is waited for, and how often it is looked meanwhile.
const QUIET: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);
/// Processes that are looked at: ssh, and those that it starts for ProxyJump or ProxyCommand.
const PROCESSES: usize = 32;

/// Whether the process, or one below it, has a terminal open. Its standard streams are pipes.
pub(super) fn has_terminal(pid: i32) -> bool {
    let mut left = VecDeque::from([pid.to_string()]);
    for _ in 0..PROCESSES {
        let Some(pid) = left.pop_front() else { return false };
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut opened = open.filter_map(|fd| fs::read_link(fd.path()).ok());
        if opened.any(|path| path.starts_with("/dev/pts") || path.to_string_lossy().starts_with("/dev/tty")) {
            return true;
        }
        let below = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        left.extend(below.split_whitespace().map(str::to_owned));
    }
    false
}

/// Says once that `name` is being connected to, if that takes long and nothing was asked meanwhile. A question is never
/// written over: it stays on the screen until it is answered.
pub(super) fn announce(process: Weak<Process>, note: Note, name: String) {
    let watch = move || {
        let mut waited = Duration::ZERO;
        while waited < QUIET {
            thread::sleep(LOOK);
            waited += LOOK;
            let Some(process) = process.upgrade() else { return };
            if process.is_settled() || process.is_silent() || process.is_asking() {
                return;
            }
        }
        note(&format!("connecting to {name} …"));
    };
    // Without the thread there is only no such line.
    let _ = thread::Builder::new().name("haul-announce".to_owned()).spawn(watch);
}
