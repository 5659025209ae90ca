//! Checks for harm that a hostile end must not cause.

use crate::process::Finished;

/// Bytes that a process may use in addition to `--max-memory`.
const BESIDES: u64 = 64 << 20;

/// The harm in the output of a run and in its `peak` memory in bytes: a panic, a control character, a line that the
/// other end forged (such lines begin with `forged`), or more memory than `max_memory` and 64 MiB.
#[must_use]
pub fn harm(run: &Finished, peak: u64, max_memory: u64) -> Vec<String> {
    let mut found = Vec::new();
    let said = run.said();
    let acts = |c: char| {
        c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if let Some(c) = said.chars().find(|c| acts(*c)) {
        found.push(format!("it printed {c:?}"));
    }
    if said.contains("panicked") {
        found.push("it panicked".to_owned());
    }
    if said.lines().any(|line| line.starts_with("forged")) {
        found.push("a line was forged".to_owned());
    }
    if peak > max_memory + BESIDES {
        found.push(format!("it took {} MiB of memory", peak >> 20));
    }
    found
}
