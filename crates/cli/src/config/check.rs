//! Checks options of the settings by the definition of the command line.

use clap::{Arg, ArgAction, Command};

use super::entry::{OptionValue, Scope, Value};
use crate::args::{COMMANDS, check_value, is_settable, names_files, opposite, similar, typed_only};

/// Words in the names of secrets, which settings must not have.
const SECRETS: [&str; 7] =
    ["password", "passwd", "secret", "token", "access-key", "account-key", "credential"];

/// An option of a command that an entry is for.
#[derive(Clone, Debug)]
pub(super) struct Meaning<'a> {
    pub(super) arg: &'a Arg,
    /// The words that give it to the command line; none if its default is meant.
    pub(super) words: Vec<String>,
}

/// Checks an entry against the commands of its scope: the option exists, settings may give it, the value is valid. Returns
/// whether its values are files of this machine. An error is one line.
pub(super) fn check(entry: &OptionValue, all: &Command) -> Result<bool, String> {
    let commands = commands(&entry.scope);
    let (mut known, mut files) = (false, false);
    for name in commands.iter().copied() {
        let Some(command) = all.find_subcommand(name) else { continue };
        let Some(meaning) = meaning(entry, name, command)? else { continue };
        known = true;
        for word in &meaning.words {
            check_value(meaning.arg, word).map_err(|cause| entry.origin.says(cause))?;
        }
        files |= names_files(meaning.arg);
    }
    if known { Ok(files) } else { Err(entry.origin.says(unknown(entry, &commands, all))) }
}

/// Whether a variable with this name can be meant for haul: some command has the option, or one with a similar name.
pub(super) fn is_meant(name: &str, all: &Command) -> bool {
    let commands = COMMANDS.iter().filter_map(|command| all.find_subcommand(command));
    let longs: Vec<String> = commands
        .flat_map(Command::get_arguments)
        .filter_map(|arg| arg.get_long().map(str::to_owned))
        .collect();
    [name.to_owned(), opposite(name)].iter().any(|name| similar(name, &longs).is_some())
}

fn commands(scope: &Scope) -> Vec<&'static str> {
    match scope {
        Scope::Command(name) => vec![*name],
        Scope::Defaults | Scope::Location(_) => COMMANDS.to_vec(),
    }
}

/// The option of a command that an entry sets; `None` if the command has no such option, or settings cannot give it.
pub(super) fn meaning<'a>(
    entry: &OptionValue,
    name: &str,
    command: &'a Command,
) -> Result<Option<Meaning<'a>>, String> {
    let find = |long: &str| {
        command.get_arguments().find(|arg| arg.get_long() == Some(long) && is_settable(name, arg))
    };
    let other = opposite(&entry.name);
    let (arg, is_opposite) = match (find(&entry.name), find(&other)) {
        (Some(arg), _) => (arg, false),
        (None, Some(arg)) if matches!(arg.get_action(), ArgAction::SetTrue) => (arg, true),
        (None, _) => return Ok(None),
    };
    let long = arg.get_long().unwrap_or_default();
    let is_flag = matches!(arg.get_action(), ArgAction::SetTrue);
    let is_optional = arg.get_num_args().is_some_and(|count| count.min_values() == 0);
    let repeats = matches!(arg.get_action(), ArgAction::Append);
    let wrong = |what: &str| Err(entry.origin.says(format!("`{}` takes {what}", entry.name)));
    let flag = |on: bool| if on == is_opposite { Vec::new() } else { vec![format!("--{long}")] };
    let with = |value: &str| format!("--{long}={value}");
    let words = match &entry.value {
        Value::Flag(on) if is_flag || is_optional => flag(*on),
        Value::Flag(_) => return wrong("a value, not true or false"),
        Value::Untyped(text) if is_flag => match truth(text) {
            Some(on) => flag(on),
            None => return wrong("true or false"),
        },
        Value::Untyped(text) if is_optional && truth(text).is_some() => flag(truth(text) == Some(true)),
        Value::Text(_) | Value::List(_) if is_flag => return wrong("true or false, without quotes"),
        Value::Text(text) | Value::Untyped(text) => vec![with(text)],
        Value::List(texts) if repeats => texts.iter().map(|text| with(text)).collect(),
        Value::List(_) => return wrong("one value, not a list"),
    };
    Ok(Some(Meaning { arg, words }))
}

/// A truth value of a variable.
fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// Why no command takes an entry.
fn unknown(entry: &OptionValue, commands: &[&str], all: &Command) -> String {
    let name = &entry.name;
    if SECRETS.iter().any(|secret| name.contains(secret)) {
        return format!(
            "`{name}`: settings have no secrets; `haul help environment` lists the variables and files that haul reads instead"
        );
    }
    let of = |command: &&str| all.find_subcommand(command);
    let args: Vec<&Arg> = commands.iter().filter_map(of).flat_map(Command::get_arguments).collect();
    let has = |arg: &&&Arg, long: &str| arg.get_long() == Some(long);
    let refused = commands
        .iter()
        .find_map(|command| typed_only(command, name).or(typed_only(command, &opposite(name))));
    if let Some(why) =
        refused.filter(|_| args.iter().any(|arg| has(&arg, name) || has(&arg, &opposite(name))))
    {
        return format!("`{name}` cannot be a setting: {why}");
    }
    if let Scope::Command(command) = entry.scope
        && COMMANDS.iter().filter_map(of).flat_map(Command::get_arguments).any(|arg| has(&&arg, name))
    {
        return format!("`haul {command}` has no option --{name}: other commands have it");
    }
    let alias = args.iter().find(|arg| arg.get_all_aliases().is_some_and(|all| all.contains(&name.as_str())));
    let longs: Vec<String> = args
        .iter()
        .filter(|arg| commands.iter().any(|command| is_settable(command, arg)))
        .filter_map(|arg| arg.get_long().map(str::to_owned))
        .collect();
    let meant = alias.and_then(|arg| arg.get_long()).or_else(|| similar(name, &longs).map(String::as_str));
    match meant {
        Some(meant) => format!("`{name}` is not an option of haul; a similar one is `{meant}`"),
        None if name.contains('_') => {
            format!("`{name}` is not an option of haul: names have dashes, as in max-memory")
        }
        None => format!(
            "`{name}` is not an option of haul: `haul COMMAND --help` lists them, without the dashes here"
        ),
    }
}
