//! What a run must not do, whatever the other end says.

use crate::process::Finished;

/// What a process may take beside what `--max-memory` says, in bytes.
const BESIDES: u64 = 64 << 20;

/// The harm that is seen in what a run printed and in its `peak` of memory in bytes: a panic, a character that a terminal
/// acts on, a line that the other end forged (the liars' lines begin with `forged`), more memory than `max_memory` and
/// 64 MiB.
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
