//! Whether ssh asks the person for something. ssh opens the terminal for a question and closes it after the answer.

use std::collections::VecDeque;
use std::fs;

/// Processes to check at most: ssh, and those that it starts for ProxyJump or ProxyCommand.
const PROCESSES: usize = 32;

/// Whether the process or one of its descendants has a terminal open. Their standard streams are pipes.
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
