//! Errors of the command line, in one line each: the option, the value given and the valid values.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::foreign;
use super::typed_only::COMMANDS;

/// A command line that was not accepted.
#[derive(Debug)]
pub(crate) enum RefusedCommand {
    /// The error, in one line.
    Line(String),
    /// Help or the version, as requested, or help because no argument was given.
    Parser(clap::Error),
}

impl RefusedCommand {
    /// The exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Line(_) => 2,
            Self::Parser(error) => u8::try_from(error.exit_code()).unwrap_or(2),
        }
    }
}

/// Converts an error of clap. Options of other tools are looked up in a table; for others clap's suggestion is kept
/// only if it is a likely typing error.
pub(crate) fn refused(error: clap::Error, words: &[OsString]) -> RefusedCommand {
    let command = words.get(1).map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    RefusedCommand::Line(match error.kind() {
        ErrorKind::InvalidSubcommand => no_command(&error, &command),
        ErrorKind::UnknownArgument => no_option(&error, &command, words),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => no_value(&error),
        ErrorKind::MissingRequiredArgument => missing(&error, &command, words),
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
            let value = given(&error);
            let name = typed_with(words, &value).unwrap_or_else(|| about(&error));
            foreign::with_value(&command, &name, &value)
                .unwrap_or_else(|| format!("{name} takes no value; `{value}` was given"))
        }
        ErrorKind::TooManyValues => too_many(&given(&error), &command),
        ErrorKind::InvalidUtf8 => "a text argument is not valid UTF-8".to_owned(),
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => return RefusedCommand::Parser(error),
        _ => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            first.strip_prefix("error: ").unwrap_or(first).to_owned()
        }
    })
}

fn no_command(error: &clap::Error, command: &str) -> String {
    let word = text(error, ContextKind::InvalidSubcommand);
    if command == "config" && ["get", "set", "unset", "edit", "list"].contains(&word.as_str()) {
        return format!(
            "`{word}` is not a command of `haul config`: `haul config show` prints the settings; edit \
             ~/.config/haul/config.toml to change them (`haul config path` names all files)"
        );
    }
    if command != word {
        return format!("`{word}` is not a command of `haul {command}`: `haul {command} --help` lists them");
    }
    if let Some(advice) = foreign::command_advice(&word) {
        return format!("`{word}` is not a command: {advice}");
    }
    if word.contains(['/', ':', '.']) {
        return format!("`{word}` is not a command: to copy, use `haul copy SRC DST`");
    }
    match similar(&word, &texts(error, ContextKind::SuggestedSubcommand)) {
        Some(meant) => format!("`{word}` is not a command; a similar one is `{meant}`"),
        None => format!("`{word}` is not a command: `haul help` lists them"),
    }
}

fn no_option(error: &clap::Error, command: &str, words: &[OsString]) -> String {
    let given = text(error, ContextKind::InvalidArg);
    let word = given.split(['=', ' ']).next().unwrap_or_default();
    if command.starts_with('-') {
        // A value may follow.
        let more = if command.starts_with("--") { " …" } else { "" };
        let known =
            |word: &OsString| Some(word.to_str()?).filter(|word| COMMANDS.contains(word)).map(str::to_owned);
        let of = words.iter().skip(2).find_map(known).unwrap_or_else(|| "copy".to_owned());
        return format!(
            "`{word}` is too early: options follow the command, as in `haul {of} {command}{more}`"
        );
    }
    if !given.starts_with('-') {
        return too_many(&given, command);
    }
    let attached = words.iter().filter_map(|word| foreign::attached(command, word.to_str()?));
    let other_tools = attached.chain(foreign::option_advice(command, word)).next();
    if let Some(line) = other_tools {
        return line;
    }
    match similar(word, &texts(error, ContextKind::SuggestedArg)) {
        // A word of another tool is no typing error.
        Some(meant) if !foreign::is_known(word) => {
            format!("`{word}` is not an option of `haul {command}`; a similar one is `{meant}`")
        }
        _ => foreign::advice_elsewhere(command, word).unwrap_or_else(|| {
            format!("`{word}` is not an option of `haul {command}`: `haul {command} --help` lists them")
        }),
    }
}

/// The option that was typed with this value, as in `--name=VALUE`: it may be another name of the one in the error.
fn typed_with(words: &[OsString], value: &str) -> Option<String> {
    let typed = words.iter().filter_map(|word| word.to_str()?.split_once('='));
    typed
        .filter(|(name, given)| name.starts_with("--") && *given == value)
        .map(|(name, _)| name.to_owned())
        .next()
}

fn too_many(given: &str, command: &str) -> String {
    format!("unexpected argument `{given}`: see `haul {command} --help`")
}

/// The error of an invalid value. The message of the option's own parser comes first.
fn no_value(error: &clap::Error) -> String {
    let (what, value) = (about(error), given(error));
    let choices = texts(error, ContextKind::ValidValue);
    let quoted = format!("`{value}`");
    match error.source().map(ToString::to_string) {
        Some(cause) if cause.contains(&quoted) => format!("{what}: {cause}{}", flag_of_rsync(&what)),
        Some(cause) => format!("{what} {quoted}: {cause}{}", flag_of_rsync(&what)),
        None if !choices.is_empty() => {
            format!("{what}: {quoted} is not one of {}{}", choices.join(", "), flag_of_rsync(&what))
        }
        None => format!("{what} needs a value, as in {}", text(error, ContextKind::InvalidArg)),
    }
}

/// The way out for an option that takes a value in haul, and none in rsync.
pub(super) fn flag_of_rsync(option: &str) -> &'static str {
    if option.starts_with("--compress") { " (for rsync's flag, write -z)" } else { "" }
}

/// The forms of haul pipe.
pub(crate) const PIPE_FORMS: &str = "`haul pipe HOST --into CMD -- CMD`, or `haul pipe --from HOST CMD --into CMD`, with quotes around a CMD of words";

/// Options that require another one: clap does not report which of them was given.
pub(super) const REQUIRING: [(&str, &[&str]); 11] = [
    ("--manifest", &["--sign", "--manifest-format", "--allowed-signers"]),
    ("--index", &["--index-refresh"]),
    ("--sse", &["--sse-kms-key-id"]),
    ("--identity", &["--allow-plain"]),
    ("--fifo-dir", &["--fifo-streams"]),
    ("--unpack", &["--merge"]),
    ("--members", &["--identity"]),
    ("--pages", &["--bad-pages"]),
    ("--target-kind", &["--unfit"]),
    ("--dry-run", &["--length"]),
    ("--incomplete", &["--any"]),
];

/// The given option that requires `missing`.
fn requiring(missing: &str, words: &[OsString]) -> Option<&'static str> {
    let (_, options) = REQUIRING.iter().find(|(required, _)| *required == missing)?;
    let given = words.iter().filter_map(|word| word.to_str()?.split('=').next());
    options.iter().copied().find(|option| given.clone().any(|word| word == *option))
}

/// The error of missing options or arguments; `words` is the command line.
fn missing(error: &clap::Error, command: &str, words: &[OsString]) -> String {
    let all = texts(error, ContextKind::InvalidArg);
    let names: Vec<&str> = all.iter().map(|what| name(what)).collect();
    if names.iter().any(|name| name.starts_with('-')) {
        if command == "pipe" && names == ["--into"] {
            return format!("--into is missing: {PIPE_FORMS}");
        }
        let other = match names[..] {
            [one] => format!("{} requires it", requiring(one, words).unwrap_or("another given option")),
            _ => "all are required".to_owned(),
        };
        return format!("{} is missing: {other}", names.join(", "));
    }
    let usage = text(error, ContextKind::Usage);
    let usage = usage.trim_start_matches("Usage:").lines().next().unwrap_or_default().trim();
    // The user may have typed an alias.
    let own = format!("haul {} ", foreign::canonical(command));
    let usage = usage.replacen(&own, &format!("haul {command} "), 1);
    let help = format!("see `haul {command} --help`");
    if usage.is_empty() {
        return format!("{} is missing: {help}", names.join(", "));
    }
    format!("arguments are missing: `{usage}`; {help}")
}

/// The option or argument that an error concerns, without the name of its value.
pub(super) fn about(error: &clap::Error) -> String {
    name(&text(error, ContextKind::InvalidArg)).to_owned()
}

/// `--streams <N>` without the value; `<ID>` and `[FILE]` without the brackets.
fn name(what: &str) -> &str {
    if what.starts_with('-') {
        return what.split([' ', '=', '[']).next().unwrap_or_default();
    }
    what.trim_end_matches("...").trim_matches(['<', '>', '[', ']'])
}

/// The value that an error concerns.
pub(super) fn given(error: &clap::Error) -> String {
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

/// The first suggestion that differs from `word` by a likely typing error: one letter in five, at least one. Two
/// letters in the wrong order count as one.
pub(crate) fn similar<'a>(word: &str, suggested: &'a [String]) -> Option<&'a String> {
    let allowed = word.len() / 5;
    suggested.iter().find(|other| strsim::osa_distance(word, other) <= allowed.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_differs_in_few_letters() {
        let slip = |word: &str, other: &str| similar(word, &[other.to_owned()]).is_some();
        assert!(slip("--bwlimt", "--bwlimit") && slip("same", "same"));
        assert!(slip("sycn", "sync") && slip("--bwlimti", "--bwlimit") && !slip("cysn", "sync"));
        assert!(!slip("kitten", "sitting") && !slip("", "abc"));
    }

    #[test]
    fn names_come_without_value_names() {
        for (what, bare) in [
            ("--streams <N>", "--streams"),
            ("--index[=<FILE>]", "--index"),
            ("<ID>", "ID"),
            ("<LOCATION>...", "LOCATION"),
            ("[FILE]", "FILE"),
            ("[CMD]...", "CMD"),
            ("-z", "-z"),
        ] {
            assert_eq!(name(what), bare);
        }
    }
}
