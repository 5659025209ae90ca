//! `haul help`.

use haul_core::Result;

use super::print::print;
use crate::args::{TOPICS, explain};
use crate::exit_code::Exit;
use crate::settings::usage;

/// Prints the help text of haul, of a command or of a topic.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if there is no such command or topic; the error of writing the text.
pub(super) fn run(word: Option<&str>) -> Result<Exit> {
    let Some(text) = explain(word) else {
        let topics: Vec<&str> = TOPICS.iter().map(|topic| topic.name).collect();
        let cause = format!("it is neither a command nor a topic; the topics are {}", topics.join(", "));
        return Err(usage("explain", &cause).on(word.unwrap_or_default()));
    };
    print(text.as_bytes())
}
