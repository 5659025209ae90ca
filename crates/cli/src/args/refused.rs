//! Why a command line was not taken, in one line: what it is about, what was given, and what is taken.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::advice::{COMMANDS, OPTIONS};

/// Why a command line was not taken.
#[derive(Debug)]
pub(crate) enum Refused {
    /// One line that says it all.
    Line(String),
    /// Help and the version, which were asked for, or help for want of any word.
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
pub(crate) fn refused(error: clap::Error, words: &[OsString]) -> Refused {
    let command = words.get(1).map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    Refused::Line(match error.kind() {
        ErrorKind::InvalidSubcommand => no_command(&error, &command),
        ErrorKind::UnknownArgument => no_option(&error, &command),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => no_value(&error),
        ErrorKind::MissingRequiredArgument => missing(&error, &command),
        ErrorKind::ArgumentConflict if !about(&error).is_empty() => {
            let others = texts(&error, ContextKind::PriorArg);
            let others: Vec<&str> = others.iter().map(|other| name(other)).collect();
            let what = about(&error);
            if others.is_empty() || others == [what.as_str()] {
                format!("{what} can be given only once")
            } else {
                format!("{what} cannot be used with {}", others.join(" and "))
            }
        }
        ErrorKind::TooManyValues if about(&error).starts_with('-') => {
            format!("{}: `{}` is too much, it takes no value", about(&error), given(&error))
        }
        ErrorKind::TooManyValues => {
            let help = format!("`haul {command} --help` says how many words it takes");
            format!("`{}` is one word too many: {help}", given(&error))
        }
        ErrorKind::InvalidUtf8 => "an argument that must be text is not UTF-8".to_owned(),
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => return Refused::Parser(error),
        _ => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            first.strip_prefix("error: ").unwrap_or(first).to_owned()
        }
    })
}

fn no_command(error: &clap::Error, command: &str) -> String {
    let word = text(error, ContextKind::InvalidSubcommand);
    if command != word {
        return format!("`{word}` is not a command of `haul {command}`: `haul {command} --help` lists them");
    }
    if let Some((_, advice)) = COMMANDS.iter().find(|(names, _)| names.contains(&word.as_str())) {
        return format!("`{word}` is not a command: {advice}");
    }
    if word.contains(['/', ':', '.']) {
        return format!("`{word}` is not a command: for a copy it is `haul copy SRC DST`");
    }
    match slip(&word, &texts(error, ContextKind::SuggestedSubcommand)) {
        Some(meant) => format!("`{word}` is not a command; a similar one is `{meant}`"),
        None => format!("`{word}` is not a command: `haul help` lists them"),
    }
}

fn no_option(error: &clap::Error, command: &str) -> String {
    let given = text(error, ContextKind::InvalidArg);
    let word = given.split(['=', ' ']).next().unwrap_or_default();
    if command.starts_with('-') {
        return format!(
            "`{word}` comes too early: options follow the command, as in `haul copy {command} SRC DST`"
        );
    }
    if !given.starts_with('-') {
        return format!(
            "`{given}` is one word too many: `haul {command} --help` says how many words it takes"
        );
    }
    if let Some(advice) = advice(command, word) {
        return format!("`{word}` is not an option of `haul {command}`: {advice}");
    }
    match slip(word, &texts(error, ContextKind::SuggestedArg)) {
        Some(meant) => format!("`{word}` is not an option of `haul {command}`; a similar one is `{meant}`"),
        None => format!("`{word}` is not an option of `haul {command}`: `haul {command} --help` lists them"),
    }
}

/// What is said of a value that does not suit. What its own parser says comes first.
fn no_value(error: &clap::Error) -> String {
    let (what, value) = (about(error), given(error));
    let choices = texts(error, ContextKind::ValidValue);
    let quoted = format!("`{value}`");
    match error.source().map(ToString::to_string) {
        Some(cause) if cause.contains(&quoted) => format!("{what}: {cause}"),
        Some(cause) => format!("{what} {quoted}: {cause}"),
        None if !choices.is_empty() => format!("{what}: {quoted} is not one of {}", choices.join(", ")),
        None => format!("{what} needs a value, as in {}", text(error, ContextKind::InvalidArg)),
    }
}

/// What is said of something that was not given.
fn missing(error: &clap::Error, command: &str) -> String {
    let all = texts(error, ContextKind::InvalidArg);
    let names: Vec<&str> = all.iter().map(|what| name(what)).collect();
    if names.iter().any(|name| name.starts_with('-')) {
        let other =
            if names.len() == 1 { "an option that was given needs it" } else { "all of them are needed" };
        return format!("{} is missing: {other}", names.join(", "));
    }
    let usage = text(error, ContextKind::Usage);
    let usage = usage.trim_start_matches("Usage:").lines().next().unwrap_or_default().trim();
    let help = format!("`haul {command} --help` explains");
    if usage.is_empty() {
        return format!("{} is missing: {help}", names.join(", "));
    }
    format!("words are missing: it is `{usage}`; {help}")
}

/// The option or argument that an error is about, without what its value is called.
fn about(error: &clap::Error) -> String {
    name(&text(error, ContextKind::InvalidArg)).to_owned()
}

/// `--streams <N>` without the value; `<ID>` and `[FILE]` without the brackets.
fn name(what: &str) -> &str {
    if what.starts_with('-') {
        return what.split([' ', '=', '[']).next().unwrap_or_default();
    }
    what.trim_end_matches("...").trim_matches(['<', '>', '[', ']'])
}

/// The value that an error is about.
fn given(error: &clap::Error) -> String {
    text(error, ContextKind::InvalidValue)
}

fn text(error: &clap::Error, kind: ContextKind) -> String {
    texts(error, kind).join(", ")
}

fn texts(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        Some(ContextValue::StyledStr(text)) => vec![text.to_string()],
        _ => Vec::new(),
    }
}

/// What to do instead of an option of another tool.
fn advice(command: &str, word: &str) -> Option<&'static str> {
    let of = |at: &str| at.is_empty() || at.split(' ').any(|name| name == command);
    OPTIONS.iter().find(|(at, names, _)| of(at) && names.contains(&word)).map(|(_, _, advice)| *advice)
}

/// That of the words that the parser suggests from which `word` differs as a slip of the hand does.
fn slip<'a>(word: &str, suggested: &'a [String]) -> Option<&'a String> {
    let allowed = word.len() / 5;
    suggested.iter().find(|other| strsim::levenshtein(word, other) <= allowed.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_differs_in_few_letters() {
        let slip = |word: &str, other: &str| slip(word, &[other.to_owned()]).is_some();
        assert!(slip("--bwlimt", "--bwlimit") && slip("same", "same"));
        assert!(!slip("kitten", "sitting") && !slip("", "abc"));
    }

    #[test]
    fn names_come_without_what_the_value_is_called() {
        for (what, bare) in [
            ("--streams <N>", "--streams"),
            ("--index[=<FILE>]", "--index"),
            ("<ID>", "ID"),
            ("<END>...", "END"),
            ("[FILE]", "FILE"),
            ("[CMD]...", "CMD"),
            ("-z", "-z"),
        ] {
            assert_eq!(name(what), bare);
        }
    }
}
