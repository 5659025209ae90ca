//! `haul help`.

use haul_core::Result;

use crate::args::{TOPICS, explain};
use crate::exit_code::Exit;
use crate::render::Lines;
use crate::settings::usage;

/// Prints the help text of haul, of a command or of a topic.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if there is no such command or topic.
pub(super) fn run(word: Option<&str>) -> Result<Exit> {
    let Some(text) = explain(word) else {
        let topics: Vec<&str> = TOPICS.iter().map(|topic| topic.name).collect();
        let cause = format!("it is neither a command nor a topic; the topics are {}", topics.join(", "));
        return Err(usage("explain", &cause).on(word.unwrap_or_default()));
    };
    let lines = Lines::stdout();
    lines.write(text.as_bytes());
    lines.flush();
    Ok(if lines.is_closed() { Exit::Incomplete } else { Exit::Done })
}
