//! Reading the command line.

use std::any::TypeId;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, Command, CommandFactory, FromArgMatches, Parser};

use super::Cli;
use super::refused::{Refused, refused};

/// Commands in which `-h` beside other words means what it means to rsync.
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

/// Whether a value of it must be something else than text or a path: then what does not suit is refused.
pub(crate) fn is_checked(arg: &Arg) -> bool {
    let free = [TypeId::of::<String>(), TypeId::of::<OsString>(), TypeId::of::<PathBuf>()];
    arg.get_action().takes_values() && free.iter().all(|free| arg.get_value_parser().type_id() != *free)
}

/// With values that begin with `-` given to the option before them where it checks its values: so it can say what it
/// takes, as of `--streams -1`, where the parser would not know an option `-1`.
fn strict(command: Command) -> Command {
    let strict_arg = |arg: Arg| {
        let own = is_checked(&arg) && !arg.is_positional() && !arg.is_require_equals_set();
        if own { arg.allow_hyphen_values(true) } else { arg }
    };
    command.mut_args(strict_arg).mut_subcommands(strict)
}

/// `-h` is help only when it stands alone, which [`parse`] sees to.
fn long_help(command: Command) -> Command {
    let help = Arg::new("help").long("help").action(ArgAction::Help);
    command.disable_help_flag(true).arg(help.help("Print help (-h alone prints a summary)"))
}

/// Parses a command line, the program's name first.
///
/// # Errors
/// If it cannot be meant; or if help or the version was asked for.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Cli, Refused> {
    let words: Vec<OsString> = words.into_iter().collect();
    let alone = match words.as_slice() {
        [_, last] => last == "-h",
        [_, command, last] => last == "-h" && !command.as_encoded_bytes().starts_with(b"-"),
        _ => false,
    };
    if !alone && words.get(1).is_some_and(|word| word == "-h") {
        let line = "`-h` comes too early: options follow the command, as in `haul copy -avh SRC DST`";
        return Err(Refused::Line(line.to_owned()));
    }
    let parsed = if alone { Cli::try_parse_from(&words) } else { attempt(&words) };
    parsed.map_err(|error| refused(error, &words))
}

/// What the parser itself makes of a command line.
///
/// # Errors
/// As it puts them.
pub(super) fn attempt(words: &[OsString]) -> Result<Cli, clap::Error> {
    command().try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches))
}
