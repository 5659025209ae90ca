//! How a run beside a liar is judged.

use super::Lie;
use crate::process::Finished;

/// What a process may take beside what `--max-memory` says, in bytes.
const BESIDES: u64 = 64 << 20;

/// What is wrong with the end of a run beside a liar: a code that no document names, a panic, control characters, memory.
#[must_use]
pub fn problems(run: &Finished, peak: u64, max_memory: u64) -> Vec<String> {
    let mut found = Vec::new();
    if !matches!(run.code(), Some(0..=5)) {
        found.push(format!("it ended with {}", run.status));
    }
    let said = [&run.stdout[..], &run.stderr].concat();
    let text = String::from_utf8_lossy(&said);
    let acts = |c: char| {
        c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if let Some(c) = text.chars().find(|c| acts(*c)) {
        found.push(format!("it printed {c:?}"));
    }
    if text.contains("panicked at") || text.contains("a thread panicked") {
        found.push("it panicked".to_owned());
    }
    if peak > max_memory + BESIDES {
        found.push(format!("it took {} MiB of memory", peak >> 20));
    }
    found
}

/// Whether nothing but the far end knows whether this is true, so that a lie may end with exit 0 and another tree: what it
/// has as a source, or what it did as a destination. `docs/SECURITY.md` names them.
#[must_use]
pub fn believed(key: &str, change: &str) -> bool {
    const SOURCE: &[&str] = &["Response.Root", "Response.Scan", "Response.Lookup", "Response.Digest"];
    const DESTINATION: &[&str] = &[
        "Response.Answers",
        "Response.Write",
        "Response.Removed",
        "Response.Pages",
        "Response.Fetched",
        "Claim.Write",
    ];
    let is_of = |kinds: &[&str]| {
        kinds.iter().any(|kind| {
            key.strip_prefix(kind).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    };
    is_of(SOURCE) || is_of(DESTINATION) || change == "other-content"
}

/// Whether the far end withholds an answer, or lists without an end, and keeps the connection alive: that cannot be told
/// from a slow file system, so haul waits until a person has had enough.
#[must_use]
pub fn withholds(lie: &Lie) -> bool {
    const FRAME: &[&str] =
        &["never", "late", "silence", "id-", "body-most", "payload-most", "payload+1", "body+1"];
    let frame = lie.key.starts_with("Frame.") && FRAME.iter().any(|word| lie.change.starts_with(word));
    frame || lie.key == "Response.Scan.last"
}
