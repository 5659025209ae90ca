//! How a run beside a liar is judged.

use super::lie::MessageLie;
use crate::harm::harm;
use crate::process::Finished;

/// The problems of a run beside a liar: an exit code that no document names, a panic, control characters, memory.
#[must_use]
pub fn problems(run: &Finished, peak: u64, max_memory: u64) -> Vec<String> {
    let mut found = Vec::new();
    if !matches!(run.code(), Some(0..=5)) {
        found.push(format!("it ended with {}", run.status));
    }
    found.extend(harm(run, peak, max_memory));
    found
}

/// Whether only the remote end can know this: the content of a source, or the work of a destination. A lie about it may
/// end with exit 0 and another tree. `docs/SECURITY.md` describes these lies.
#[must_use]
pub fn believed(key: &str, change: &str) -> bool {
    const SOURCE: &[&str] = &[
        "Response.Root",
        "Response.Above",
        "Response.Scan",
        "Response.Lookup",
        "Response.Digest",
        "Response.Sha256",
    ];
    const DESTINATION: &[&str] = &[
        "Response.Answers",
        "Response.Write",
        "Response.Removed",
        "Response.PageHashes",
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

/// Whether the remote end withholds an answer, or lists without an end, and keeps the connection alive. haul cannot
/// distinguish that from a slow file system, so it waits until the user interrupts it.
#[must_use]
pub fn withholds(lie: &MessageLie) -> bool {
    const FRAME: &[&str] =
        &["never", "late", "silence", "id-", "id+1", "body-most", "payload-most", "payload+1", "body+1"];
    let frame = lie.key.starts_with("Frame.") && FRAME.iter().any(|word| lie.change.starts_with(word));
    frame || lie.key == "Response.Scan.last"
}
