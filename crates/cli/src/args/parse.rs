//! Reading the command line.

use std::any::TypeId;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, Command, CommandFactory, FromArgMatches, Parser};

use super::cli::Cli;
use super::refused::{Refused, refused};

/// Commands in which `-h` beside other arguments is rsync's --human-readable.
const READABLE: [&str; 10] = ["copy", "sync", "verify", "hash", "put", "get", "ls", "rm", "plan", "probe"];

/// The whole command line, as it is parsed and documented.
pub(crate) fn command() -> Command {
    let command = strict(Cli::command());
    READABLE.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |command| {
            let readable = Arg::new("human-readable").short('h').long("human-readable");
            long_help(command)
                .arg(readable.action(ArgAction::SetTrue).overrides_with("human-readable").hide(true))
        })
    })
}

/// Whether the option checks its values: any type but text and paths.
pub(crate) fn is_checked(arg: &Arg) -> bool {
    let free = [TypeId::of::<String>(), TypeId::of::<OsString>(), TypeId::of::<PathBuf>()];
    arg.get_action().takes_values() && free.iter().all(|free| arg.get_value_parser().type_id() != *free)
}

/// Lets options that check their values take values that begin with `-`. Their own error names the valid values, as for
/// `--streams -1`; clap would report an unknown option `-1`.
fn strict(command: Command) -> Command {
    let strict_arg = |arg: Arg| {
        let own = is_checked(&arg) && !arg.is_positional() && !arg.is_require_equals_set();
        if own { arg.allow_hyphen_values(true) } else { arg }
    };
    command.mut_args(strict_arg).mut_subcommands(strict)
}

/// Replaces clap's help option. [`parse`] treats `-h` as help only if it stands alone.
fn long_help(command: Command) -> Command {
    let help = Arg::new("help").long("help").action(ArgAction::Help);
    command.disable_help_flag(true).arg(help.help("Print help (-h alone prints a summary)"))
}

/// Parses a command line that begins with the program's name.
///
/// # Errors
/// [`Refused::Line`] if it is invalid, [`Refused::Parser`] if it asks for help or the version.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Cli, Refused> {
    let words: Vec<OsString> = words.into_iter().collect();
    let alone = match words.as_slice() {
        [_, last] => last == "-h",
        [_, command, last] => last == "-h" && !command.as_encoded_bytes().starts_with(b"-"),
        _ => false,
    };
    if !alone && words.get(1).is_some_and(|word| word == "-h") {
        let line = "`-h` is too early: options follow the command, as in `haul copy -avh SRC DST`";
        return Err(Refused::Line(line.to_owned()));
    }
    let parsed = if alone { Cli::try_parse_from(&words) } else { attempt(&words) };
    parsed.map_err(|error| refused(error, &words))
}

/// Parses a command line and returns clap's own errors.
///
/// # Errors
/// clap's.
pub(super) fn attempt(words: &[OsString]) -> Result<Cli, clap::Error> {
    command().try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches))
}
