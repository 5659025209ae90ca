//! Which settings apply to a command line: the first that says something counts. Variables come before named locations,
//! these before the file of the user, and this before the file of the machine; in a file the table of the command comes
//! before `[defaults]`.

use clap::{Arg, Command};

use super::check::meaning;
use super::entry::{Entry, Scope, key};
use super::places::is_of_store;
use super::settings::{Settings, adds_up};

/// The part of a command line that decides which settings apply.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    /// The command.
    pub(super) command: String,
    /// The identifiers of the options of the command line.
    pub(super) typed: Vec<String>,
    /// The long names of these options, without `no-`.
    pub(super) keys: Vec<String>,
    /// The named locations, without `@`.
    pub(super) names: Vec<String>,
}

/// A setting that applies.
#[derive(Clone, Debug)]
pub(super) struct Chosen<'a> {
    pub(super) entry: &'a Entry,
    /// The long name of the option that it stands for.
    pub(super) long: String,
    /// The words of the command line that it stands for.
    pub(super) words: Vec<String>,
    /// Whether it is a filter rule.
    pub(super) is_rule: bool,
}

/// The settings that apply to a command line. An error is one line.
pub(super) fn choose<'a>(settings: &'a Settings, line: &Line) -> Result<Vec<Chosen<'a>>, String> {
    let Some(command) = settings.all.find_subcommand(&line.command) else { return Ok(Vec::new()) };
    let mut chosen: Vec<(usize, &Arg, Chosen<'a>)> = Vec::new();
    for (rank, entry) in candidates(settings, line) {
        let Some(found) = meaning(entry, &line.command, command)? else { continue };
        let long = found.arg.get_long().unwrap_or_default().to_owned();
        let is_rule = adds_up(found.arg.get_action(), &long);
        if !is_rule && line.keys.iter().any(|typed| typed == key(&long)) {
            continue;
        }
        let same = chosen.iter().find(|(.., other)| !is_rule && key(&other.long) == key(&long));
        if let Some((_, _, other)) = same {
            let differ = other.words != found.words;
            if differ
                && matches!((&other.entry.scope, &entry.scope), (Scope::Location(_), Scope::Location(_)))
            {
                return Err(entry.origin.says(format!(
                    "the locations of this command line have different values of `{long}` ({} has another): give it \
                     on the command line",
                    other.entry.origin
                )));
            }
            continue;
        }
        if !found.words.is_empty() {
            if line
                .typed
                .iter()
                .filter_map(|id| find(command, id))
                .any(|typed| exclude(command, typed, found.arg))
            {
                continue;
            }
            let rival = chosen
                .iter()
                .find(|(_, arg, other)| !other.words.is_empty() && exclude(command, arg, found.arg));
            match rival {
                Some((of, _, other)) if *of == rank => {
                    return Err(entry.origin.says(format!(
                        "`{long}` cannot be used with `{}` ({})",
                        other.long, other.entry.origin
                    )));
                }
                Some(_) => continue,
                None => {}
            }
        }
        chosen.push((rank, found.arg, Chosen { entry, long, words: found.words, is_rule }));
    }
    Ok(chosen.into_iter().map(|(.., chosen)| chosen).collect())
}

/// All entries that may apply, with their rank, by precedence.
fn candidates<'a>(settings: &'a Settings, line: &Line) -> Vec<(usize, &'a Entry)> {
    let mut all: Vec<(usize, &Entry)> = settings.variables.iter().map(|entry| (0, entry)).collect();
    for name in &line.names {
        let places = settings.places.iter().filter(|place| place.named.name == *name);
        let entries = places.flat_map(|place| &place.options).filter(|entry| !is_of_store(entry));
        all.extend(entries.map(|entry| (1, entry)));
    }
    for (at, file) in settings.files.iter().enumerate() {
        let of_command = |entry: &&Entry| matches!(entry.scope, Scope::Command(name) if name == line.command);
        let own = file.iter().filter(of_command).map(|entry| (2 + 2 * at, entry));
        let rest =
            file.iter().filter(|entry| entry.scope == Scope::Defaults).map(|entry| (3 + 2 * at, entry));
        all.extend(own.chain(rest));
    }
    all
}

fn find<'a>(command: &'a Command, id: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| arg.get_id() == id)
}

/// Whether two options exclude each other.
fn exclude(command: &Command, one: &Arg, other: &Arg) -> bool {
    let has = |from: &Arg, to: &Arg| {
        command.get_arg_conflicts_with(from).iter().any(|arg| arg.get_id() == to.get_id())
    };
    one.get_id() != other.get_id() && (has(one, other) || has(other, one))
}
