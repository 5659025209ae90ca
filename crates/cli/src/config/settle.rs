//! Adds the settings to a command line.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches};

use super::choose::{Invocation, choose};
use super::entry::{OptionValue, key};
use super::mc_hosts::aliases;
use super::settings::Settings;
use super::sources::Sources;
use crate::args::{AddedWords, Given, HostOptions, Typed};
use crate::locations::split_name;

/// The words and values that the settings add to a command line; `None` if there are none.
///
/// # Errors
/// One line that names the file, its line, the cause and the way out.
pub(crate) fn settle(typed: &Typed<'_>, sources: &Sources) -> Result<Option<AddedWords>, String> {
    let line = line(typed);
    let mut settled = AddedWords::default();
    settled.given.locations = aliases(sources, &line.names)?;
    let Some(settings) = Settings::load(sources)? else {
        return Ok((!settled.given.locations.is_empty()).then_some(settled));
    };
    for chosen in choose(&settings, &line)? {
        if chosen.is_rule {
            let values = chosen.words.iter().filter_map(|word| word.split_once('='));
            settled.given.rules.extend(values.map(|(_, value)| (chosen.long.clone(), OsString::from(value))));
        } else {
            settled.words.extend(chosen.words.into_iter().map(OsString::from));
            settled.given.options.push(chosen.long);
        }
    }
    // The command line and variables take precedence over the tables of locations and hosts.
    let is_taken = |long: &str| {
        let mut variables = settings.variables.iter().map(OptionValue::key);
        line.has(long) || variables.any(|name| name == key(long))
    };
    let Given { locations, hosts, .. } = &mut settled.given;
    // A location of the settings replaces the alias of mc with its name.
    locations.retain(|alias| !settings.places.iter().any(|place| place.named.name == alias.name));
    locations.extend(settings.places.iter().map(|place| place.located(&is_taken)));
    hosts.extend(settings.hosts.iter().map(|host| HostOptions {
        host: host.host.clone(),
        port: host.port,
        rsh: host.rsh.clone().filter(|_| !is_taken("rsh")),
        remote_haul: host.remote_haul.clone().filter(|_| !is_taken("remote-haul")),
        bootstrap: host.bootstrap.filter(|_| !is_taken("bootstrap")),
        streams: host.streams.filter(|_| !is_taken("streams")),
    }));
    let adds = !settled.words.is_empty()
        || !settled.given.rules.is_empty()
        || !settled.given.locations.is_empty()
        || !settled.given.hosts.is_empty();
    Ok(adds.then_some(settled))
}

/// The parts of a command line that decide which settings apply.
fn line(typed: &Typed<'_>) -> Invocation {
    let mut line = Invocation { command: typed.command.to_owned(), ..Invocation::default() };
    let Some(command) = typed.parser.find_subcommand(typed.command) else { return line };
    let is_typed = |arg: &&Arg| is_typed(arg, typed.matches);
    for arg in command.get_arguments().filter(is_typed) {
        if !arg.is_positional() {
            line.typed.push(arg.get_id().to_string());
            line.longs.extend(arg.get_long().map(str::to_owned));
        } else if arg.get_id() != "command" {
            let values = typed.matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
            line.names.extend(values.filter_map(name));
        }
    }
    line
}

/// Whether the command line gives an option, also by a word of another tool that stands for it: `--whole-file` changes the
/// default of `--delta`.
fn is_typed(arg: &Arg, matches: &ArgMatches) -> bool {
    let id = arg.get_id().as_str();
    match matches.value_source(id) {
        Some(ValueSource::CommandLine) => true,
        Some(ValueSource::DefaultValue) if arg.get_action().takes_values() => {
            let given = matches.get_raw(id).into_iter().flatten();
            !given.eq(arg.get_default_values().iter().map(|value| &**value))
        }
        _ => false,
    }
}

fn name(value: &OsStr) -> Option<String> {
    let (name, _) = split_name(value.as_bytes())?;
    std::str::from_utf8(name).ok().map(str::to_owned)
}
