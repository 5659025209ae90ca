//! Finds words in the table, and words the advice.

use super::behind::{BEHIND, ValueShape};
use super::commands::{ALIASES, refused};
use super::word::{WordVerdict, words};

/// Tools are named in an error only if there are few.
const FEW: usize = 2;

/// Options of robocopy that are words of everyday language in small letters. They may name a directory, or be meant as an
/// option of haul.
pub(super) const PLAIN_WORDS: [&str; 7] = ["/COPY", "/DST", "/JOB", "/LOG", "/MOVE", "/QUIT", "/SAVE"];

/// The name in haul of a command.
pub(crate) fn canonical(command: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == command).map_or(command, |(_, name)| name)
}

/// Whether a tool has this word, for whichever command.
pub(crate) fn is_known(name: &str) -> bool {
    words().any(|word| word.names.contains(&name))
}

/// The error for a refused option of another tool; `command` is as given.
pub(crate) fn option_advice(command: &str, name: &str) -> Option<String> {
    let own = canonical(command);
    let switch = switch_of_robocopy(name);
    let is_meant = |other: &&str| *other == name || Some(*other) == switch.as_deref();
    let refused = words().find_map(|word| match word.verdict {
        WordVerdict::Hint(advice) if word.at.contains(&own) && word.names.iter().any(is_meant) => {
            Some((&word.tools, advice))
        }
        _ => None,
    });
    refused.map(|(tools, advice)| {
        format!("`{name}`{} is not an option of `haul {command}`: {advice}", of(tools))
    })
}

/// The error for an option of another tool that the table has for other commands only. The advice is that of the first
/// of them.
pub(crate) fn advice_elsewhere(command: &str, name: &str) -> Option<String> {
    let switch = switch_of_robocopy(name);
    let is_meant = |other: &&str| *other == name || Some(*other) == switch.as_deref();
    let word = words().find(|word| word.names.iter().any(is_meant))?;
    let other = word.at.first()?;
    let what = format!("`{name}`{} is not an option of `haul {command}`", of(&word.tools));
    Some(match word.verdict {
        WordVerdict::Hint(advice) => format!("{what}; for `haul {other}`: {advice}"),
        _ => format!("{what}; `haul {other}` takes it"),
    })
}

/// The option of robocopy that is written like one of haul: `/MIR` for `--mir`.
fn switch_of_robocopy(name: &str) -> Option<String> {
    let bare = name.strip_prefix("--").filter(|bare| bare.len() > 1)?;
    let switch = format!("/{}", bare.to_ascii_uppercase());
    (!PLAIN_WORDS.contains(&switch.as_str())).then_some(switch)
}

/// The advice for a command of another tool.
pub(crate) fn command_advice(command: &str) -> Option<&'static str> {
    refused().find(|(names, _)| names.contains(&command)).map(|(_, advice)| advice)
}

/// The error for a value that another tool takes behind `name`, which is an option without value in haul.
pub(crate) fn with_value(command: &str, name: &str, value: &str) -> Option<String> {
    behind(command, name, value, |shape| shape != ValueShape::Word && shape.fits(value))
}

/// The same for any value, where the command has a source and a destination without it.
pub(super) fn with_word(command: &str, name: &str, value: &str) -> Option<String> {
    behind(command, name, value, |shape| shape == ValueShape::Word)
}

/// The same for a value of a shape that `fits`.
pub(super) fn behind(
    command: &str,
    name: &str,
    value: &str,
    fits: impl Fn(ValueShape) -> bool,
) -> Option<String> {
    let own = canonical(command);
    let mut rows = BEHIND.iter().filter(|row| row.name == name && row.at.contains(&own));
    let row = rows.find(|row| fits(row.shape))?;
    Some(format!("`{name} {value}`{} is not an option of `haul {command}`: {}", of(&row.tools), row.advice))
}

/// The same for a value without a blank before it, as in `-P2222`: clap reports its first letter as an option.
pub(crate) fn attached(command: &str, word: &str) -> Option<String> {
    if word.starts_with("--") || !word.starts_with('-') || !word.is_char_boundary(2) {
        return None;
    }
    let (name, value) = word.split_at_checked(2)?;
    with_value(command, name, value)
}

/// ` of rsync and rclone`.
fn of(tools: &[&str]) -> String {
    if tools.len() > FEW { String::new() } else { format!(" of {}", tools.join(" and ")) }
}
