//! Adds the accepted words to the definition of the command line.

use clap::builder::{ArgPredicate, PossibleValuesParser};
use clap::{Arg, ArgAction, Command, Id};

use super::word::{Word, WordVerdict, words};

/// Adds the accepted words to a command. They are hidden from its help.
pub(crate) fn define(command: Command) -> Command {
    let name = command.get_name().to_owned();
    words().filter(|word| word.at.contains(&name.as_str())).fold(command, add)
}

/// Makes `-f` and `--force` flags without effect, for `cp` and `mv`: haul replaces files anyway.
pub(crate) fn force(command: Command) -> Command {
    let flag = Arg::new("force").short('f').long("force").hide(true);
    let flag = flag.action(ArgAction::SetTrue).overrides_with("force");
    command.mut_arg("filter", |arg| arg.short(None::<char>)).arg(flag)
}

fn add(command: Command, word: &Word) -> Command {
    match word.verdict {
        WordVerdict::Hint(_) => command,
        WordVerdict::Default => command.arg(flag(word)),
        WordVerdict::DefaultValue(value) => {
            let arg = named(word).action(ArgAction::Append).value_parser(PossibleValuesParser::new([value]));
            command.arg(arg.value_name("VALUE").ignore_case(true))
        }
        WordVerdict::Undoes(option) => {
            let own = id(word);
            change(command, option, |arg| arg.overrides_with(own), Arg::overrides_with, word)
        }
        WordVerdict::Means(option, value) => {
            let own = id(word);
            // A flag that is not given has the value `false`.
            let is_given = ArgPredicate::Equals("true".into());
            change(command, option, |arg| arg.default_value_if(own, is_given, value), |arg, _| arg, word)
        }
        WordVerdict::Same(option) => {
            let Some(own) = of_long(&command, option) else { return command };
            command.mut_arg(own, |arg| {
                word.names.iter().fold(arg, |arg, name| match (name.strip_prefix("--"), short(name)) {
                    (Some(long), _) => arg.alias(long),
                    (None, Some(short)) => arg.short_alias(short),
                    (None, None) => arg,
                })
            })
        }
    }
}

/// Adds a flag that acts on an option of haul.
fn change(
    command: Command,
    option: &str,
    on_option: impl FnOnce(Arg) -> Arg,
    on_flag: impl FnOnce(Arg, Id) -> Arg,
    word: &Word,
) -> Command {
    let Some(other) = of_long(&command, option) else { return command };
    command.mut_arg(other.clone(), on_option).arg(on_flag(flag(word), other))
}

/// The id of the option with this long name.
fn of_long(command: &Command, option: &str) -> Option<Id> {
    let long = option.strip_prefix("--");
    command.get_arguments().find(|arg| arg.get_long() == long).map(|arg| arg.get_id().clone())
}

fn id(word: &Word) -> &'static str {
    word.names[0]
}

fn flag(word: &Word) -> Arg {
    named(word).action(ArgAction::SetTrue).overrides_with(id(word))
}

fn named(word: &Word) -> Arg {
    let mut arg = Arg::new(id(word)).hide(true);
    for name in &word.names {
        arg = match (name.strip_prefix("--"), short(name)) {
            (Some(long), _) if arg.get_long().is_none() => arg.long(long),
            (Some(long), _) => arg.alias(long),
            (None, Some(short)) if arg.get_short().is_none() => arg.short(short),
            (None, Some(short)) => arg.short_alias(short),
            (None, None) => arg,
        };
    }
    arg
}

/// The letter of a short name.
fn short(name: &str) -> Option<char> {
    name.strip_prefix('-').and_then(|name| name.chars().next()).filter(|letter| *letter != '-')
}
