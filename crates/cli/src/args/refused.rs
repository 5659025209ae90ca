//! Words that haul does not have: what to do instead.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::advice::{COMMANDS, OPTIONS};

/// Why a command line was not taken.
#[derive(Debug)]
pub(crate) enum Refused {
    /// One line that says it all.
    Line(String),
    /// What the parser says; also help and the version, which were asked for.
    Parser(clap::Error),
}

impl Refused {
    /// The exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Line(_) => 2,
            Self::Parser(error) => u8::try_from(error.exit_code()).unwrap_or(2),
        }
    }
}

/// Puts into words why the parser took offence. A known word of another tool is answered from a table; for others the
/// parser's guess stays only where it is a likely slip of the hand.
pub(crate) fn refused(mut error: clap::Error, words: &[OsString]) -> Refused {
    let command = words.get(1).map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let invalid = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(word)) => {
            Some(word.split(['=', ' ']).next().unwrap_or_default().to_owned())
        }
        _ => None,
    };
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(word) = invalid(&error, ContextKind::InvalidSubcommand)
    {
        if let Some((_, advice)) = COMMANDS.iter().find(|(names, _)| names.contains(&word.as_str())) {
            return Refused::Line(format!("`{word}` is not a command: {advice}"));
        }
        if word.contains(['/', ':', '.']) {
            return Refused::Line(format!("`{word}` is not a command: for a copy it is `haul copy SRC DST`"));
        }
        if !is_slip(&word, error.get(ContextKind::SuggestedSubcommand)) {
            error.remove(ContextKind::SuggestedSubcommand);
        }
    }
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(word) = invalid(&error, ContextKind::InvalidArg)
    {
        if command.starts_with('-') {
            return Refused::Line(format!(
                "`{word}` comes too early: options follow the command, as in `haul copy {command} SRC DST`"
            ));
        }
        if let Some(advice) = advice(&command, &word) {
            return Refused::Line(format!("`{word}` is not an option of `haul {command}`: {advice}"));
        }
        // The advice to put `--` before it is wrong for all commands: there it begins a command or a path.
        error.remove(ContextKind::Suggested);
        if !is_slip(&word, error.get(ContextKind::SuggestedArg)) {
            error.remove(ContextKind::SuggestedArg);
        }
    }
    Refused::Parser(error)
}

/// What to do instead of an option of another tool.
fn advice(command: &str, word: &str) -> Option<&'static str> {
    let of = |at: &str| at.is_empty() || at.split(' ').any(|name| name == command);
    OPTIONS.iter().find(|(at, names, _)| of(at) && names.contains(&word)).map(|(_, _, advice)| *advice)
}

/// Whether one of the words that the parser suggests differs from `word` as a slip of the hand does.
fn is_slip(word: &str, suggested: Option<&ContextValue>) -> bool {
    let allowed = word.len() / 5;
    let near = |other: &String| strsim::levenshtein(word, other) <= allowed.max(1);
    match suggested {
        Some(ContextValue::String(other)) => near(other),
        Some(ContextValue::Strings(others)) => others.iter().any(near),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_differs_in_few_letters() {
        let slip = |word: &str, other: &str| is_slip(word, Some(&ContextValue::String(other.to_owned())));
        assert!(slip("--bwlimt", "--bwlimit") && slip("same", "same"));
        assert!(!slip("kitten", "sitting") && !slip("", "abc"));
    }
}
