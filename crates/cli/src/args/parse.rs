//! Reading the command line.

use std::any::TypeId;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches};

use super::cli::{self, Cli};
use super::foreign;
use super::given::{Given, GivenArgs};
use super::home::with_home;
use super::opposites;
use super::refused::{RefusedCommand, refused};
use super::short_help::short_help;
use super::typed_only::{COMMANDS, typed_only};
use super::value_missing::value_missing;

/// The whole command line, as it is parsed and documented.
pub(crate) fn command() -> Command {
    let command = strict(Cli::command());
    COMMANDS.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |command| {
            let readable = Arg::new("human-readable").short('h').long("human-readable");
            long_help(command)
                .arg(readable.action(ArgAction::SetTrue).overrides_with("human-readable").hide(true))
        })
    })
}

/// The command line with the words of other tools that the given command accepts. Other commands get none: each word
/// takes time.
pub(super) fn parser(typed: &str) -> Command {
    let name = foreign::canonical(typed);
    let command = with_aliases(command(), typed);
    if command.find_subcommand(name).is_none() {
        return command;
    }
    let settable = move |arg: &Arg| is_settable(name, arg);
    let takes_settings = COMMANDS.contains(&name);
    command.mut_subcommand(name, |command| {
        let command = foreign::define(command);
        let command = if foreign::forces(typed) { foreign::force(command) } else { command };
        if takes_settings { opposites::define(command, settable) } else { command }
    })
}

fn with_aliases(command: Command, typed: &str) -> Command {
    let aliases = foreign::ALIASES.iter();
    let command = aliases.fold(command, |command, (alias, name)| {
        command.mut_subcommand(name, |command| command.alias(*alias))
    });
    match foreign::about(typed) {
        Some(about) => command.mut_subcommand(foreign::canonical(typed), |command| command.about(about)),
        None => command,
    }
}

/// Whether settings may give an option of a command: all that are in its help, but those of one run.
pub(crate) fn is_settable(command: &str, arg: &Arg) -> bool {
    arg.get_long().is_some_and(|long| !arg.is_hide_set() && typed_only(command, long).is_none())
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

/// Replaces clap's help option. [`parse_with`] treats `-h` as help only if it stands alone.
fn long_help(command: Command) -> Command {
    let help = Arg::new("help").long("help").action(ArgAction::Help);
    command.disable_help_flag(true).arg(help.help("Print help (-h alone prints a summary)"))
}

/// A valid command line, before the settings are added.
pub(crate) struct Typed<'a> {
    /// The command, by its name in haul.
    pub(crate) command: &'a str,
    /// The parser of the whole command line.
    pub(crate) parser: &'a Command,
    /// The arguments that the parser found behind the command.
    pub(crate) matches: &'a ArgMatches,
}

/// The words and values that the settings add to a command line.
#[derive(Debug, Default)]
pub(crate) struct AddedWords {
    /// Options, inserted before those of the command line.
    pub(crate) words: Vec<OsString>,
    /// The rest.
    pub(crate) given: Given,
}

/// Finds the words and values that the settings add to a command line; `None` if there are none. An error is one line.
pub(crate) type Settle<'a> = &'a dyn Fn(&Typed<'_>) -> Result<Option<AddedWords>, String>;

/// Parses a command line that begins with the program's name, without settings.
///
/// # Errors
/// [`RefusedCommand::Line`] if it is invalid, [`RefusedCommand::Parser`] if it asks for help or the version.
#[cfg(test)]
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Cli, RefusedCommand> {
    parse_with(words, &|_| Ok(None))
}

/// Parses a command line that begins with the program's name, and adds the settings.
///
/// # Errors
/// [`RefusedCommand::Line`] if it or the settings are invalid, [`RefusedCommand::Parser`] if it asks for help or the
/// version.
pub(crate) fn parse_with(
    words: impl IntoIterator<Item = OsString>,
    settle: Settle<'_>,
) -> Result<Cli, RefusedCommand> {
    let words: Vec<OsString> = words.into_iter().collect();
    let alone = match words.as_slice() {
        [_, last] => last == "-h",
        [_, command, last] => last == "-h" && !command.as_encoded_bytes().starts_with(b"-"),
        _ => false,
    };
    if !alone && words.get(1).is_some_and(|word| word == "-h") {
        let line = "`-h` is too early: options follow the command, as in `haul copy -avh SRC DST`";
        return Err(RefusedCommand::Line(line.to_owned()));
    }
    let parsed = if alone {
        read(with_aliases(short_help(), typed(&words)), &words)
    } else {
        understood(&words, settle)?
    };
    let mut cli = parsed.map_err(|error| match value_missing(&error, &words, &command()) {
        Some(line) => RefusedCommand::Line(line),
        None => refused(error, &words),
    })?;
    match &mut cli.command {
        cli::Command::Copy(args) => args.remove_source_files |= foreign::moves(typed(&words)),
        cli::Command::Ls(args) => args.totals_only = foreign::sums(typed(&words)),
        _ => {}
    }
    match words.get(1).and_then(|typed| unlike(typed.to_str()?, &cli.command)) {
        Some(line) => Err(RefusedCommand::Line(line.to_owned())),
        None => Ok(cli),
    }
}

fn understood(words: &[OsString], settle: Settle<'_>) -> Result<Result<Cli, clap::Error>, RefusedCommand> {
    let command = foreign::canonical(typed(words));
    let mut parser = parser(typed(words));
    let own = parser.find_subcommand(command);
    let expanded = own.and_then(|own| with_home(words, own, std::env::home_dir().as_deref()));
    let words = expanded.as_deref().unwrap_or(words);
    let typed = typed(words);
    if let Some(line) = own.and_then(|command| foreign::misplaced(command, words)) {
        return Err(RefusedCommand::Line(line));
    }
    let matches = match parser.try_get_matches_from_mut(words) {
        Ok(matches) => matches,
        Err(error) => return Ok(Err(error)),
    };
    let behind = matches.subcommand_matches(command).filter(|_| COMMANDS.contains(&command));
    let settled = match behind {
        Some(matches) => {
            settle(&Typed { command, parser: &parser, matches }).map_err(RefusedCommand::Line)?
        }
        None => None,
    };
    let Some(AddedWords { words: more, given }) = settled else { return Ok(Cli::from_arg_matches(&matches)) };
    // clap cannot add an argument to a parser that was used.
    let parser = self::parser(typed).mut_subcommand(command, |own| own.arg(GivenArgs::carrier(given)));
    let (before, behind) = words.split_at(2.min(words.len()));
    read(parser, &[before, &more, behind].concat()).map(Ok).map_err(|error| match refused(error, words) {
        // Without the settings the command line is valid.
        RefusedCommand::Line(line) => RefusedCommand::Line(format!(
            "{line}, with the settings: `haul config show {command}` lists them"
        )),
        help @ RefusedCommand::Parser(_) => help,
    })
}

/// The advice if a command of another tool differs from the command of haul with the same name.
fn unlike(typed: &str, command: &cli::Command) -> Option<&'static str> {
    match (typed, command) {
        ("cat", cli::Command::Get(args)) if args.file().is_some() || args.fifo_dir.is_some() => {
            Some("`haul cat` prints one object on standard output: to write a file, use `haul get SRC FILE`")
        }
        ("mirror", cli::Command::Sync(args)) if !args.delete && !args.transfer.dry_run => Some(
            "`haul mirror` needs --delete, because not every mirror deletes: use `haul copy SRC DST`, or `haul sync \
             SRC DST` to delete too",
        ),
        _ => None,
    }
}

fn typed(words: &[OsString]) -> &str {
    words.get(1).and_then(|word| word.to_str()).unwrap_or_default()
}

fn read(parser: Command, words: &[OsString]) -> Result<Cli, clap::Error> {
    parser.try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches))
}

/// Parses a command line and returns clap's own errors.
///
/// # Errors
/// clap's.
#[cfg(test)]
pub(super) fn attempt(words: &[OsString]) -> Result<Cli, clap::Error> {
    read(parser(typed(words)), words)
}
