//! Which settings apply to a command line: the first that says something counts. Variables come before named locations,
//! these before the file of the user, and this before the file of the machine; in a file the table of the command comes
//! before `[defaults]`.

use clap::{Arg, Command};

use super::check::meaning;
use super::entry::{OptionValue, Scope, key};
use super::places::of_store;
use super::settings::Settings;
use crate::args::{is_rule, opposite};

/// Options that have no meaning without another one.
const REQUIRE: [(&str, &str); 4] = [
    ("index-refresh", "index"),
    ("sse-kms-key-id", "sse"),
    ("allow-plain", "identity"),
    ("allowed-signers", "manifest"),
];
/// Options that protect data: if an option excludes one of them, the user has to decide.
const PROTECTING: [&str; 4] = ["encrypt", "encrypt-file", "backup", "backup-dir"];
/// Options that stand for another one too, which may be switched off.
const IMPLY: [(&str, &str); 2] = [("backup-dir", "backup"), ("suffix", "backup")];

/// The part of a command line that decides which settings apply.
#[derive(Clone, Debug, Default)]
pub(super) struct Invocation {
    /// The command.
    pub(super) command: String,
    /// The identifiers of the options of the command line.
    pub(super) typed: Vec<String>,
    /// The long names of these options.
    pub(super) longs: Vec<String>,
    /// The named locations, without `@`.
    pub(super) names: Vec<String>,
}

impl Invocation {
    /// Whether it has an option or its opposite.
    pub(super) fn has(&self, long: &str) -> bool {
        self.longs.iter().any(|typed| key(typed) == key(long))
    }
}

/// A setting that applies.
#[derive(Clone, Debug)]
pub(super) struct ChosenSetting<'a> {
    pub(super) entry: &'a OptionValue,
    /// The long name of the option that it stands for.
    pub(super) long: String,
    /// The words of the command line that it stands for.
    pub(super) words: Vec<String>,
    /// Whether it is a filter rule.
    pub(super) is_rule: bool,
}

/// The settings that apply to a command line. An error is one line.
pub(super) fn choose<'a>(
    settings: &'a Settings,
    line: &Invocation,
) -> Result<Vec<ChosenSetting<'a>>, String> {
    let Some(command) = settings.all.find_subcommand(&line.command) else { return Ok(Vec::new()) };
    let mut chosen: Vec<RankedSetting<'a, '_>> = Vec::new();
    for (rank, entry) in candidates(settings, line) {
        let Some(found) = meaning(entry, &line.command, command)? else { continue };
        let long = found.arg.get_long().unwrap_or_default().to_owned();
        let is_rule = is_rule(&long);
        let new = RankedSetting {
            rank,
            arg: found.arg,
            chosen: ChosenSetting { entry, long, words: found.words, is_rule },
        };
        if !is_rule && line.has(&new.chosen.long) || is_off(&new.chosen.long, line, &chosen) {
            continue;
        }
        if applies(&new, line, command, &chosen)? {
            chosen.push(new);
        }
    }
    let has = |needed: &str| line.has(needed) || chosen.iter().any(|other| other.gives(needed));
    let lacks = |long: &str| REQUIRE.iter().any(|(own, needed)| *own == long && !has(needed));
    let lacking: Vec<String> =
        chosen.iter().map(|one| one.chosen.long.clone()).filter(|long| lacks(long)).collect();
    let all = chosen.into_iter().map(|ranked| ranked.chosen);
    Ok(all.filter(|one| !lacking.contains(&one.long)).collect())
}

/// A setting that may apply, with its rank and its option.
struct RankedSetting<'a, 'b> {
    rank: usize,
    arg: &'b Arg,
    chosen: ChosenSetting<'a>,
}

impl RankedSetting<'_, '_> {
    /// Whether it gives an option, and does not switch it off.
    fn gives(&self, long: &str) -> bool {
        self.chosen.long == long && !self.chosen.words.is_empty()
    }

    fn protects(&self) -> bool {
        PROTECTING.contains(&&self.chosen.long[..])
    }
}

/// Whether an option stands for another one that is switched off.
fn is_off(long: &str, line: &Invocation, chosen: &[RankedSetting<'_, '_>]) -> bool {
    IMPLY.iter().filter(|(own, _)| *own == long).any(|(_, implied)| {
        let off = opposite(implied);
        let is_chosen_off =
            |one: &RankedSetting<'_, '_>| one.chosen.long == *implied && one.chosen.words.is_empty();
        line.longs.contains(&off) || chosen.iter().any(is_chosen_off)
    })
}

/// Whether a setting applies beside those that take precedence.
fn applies(
    new: &RankedSetting<'_, '_>,
    line: &Invocation,
    command: &Command,
    chosen: &[RankedSetting<'_, '_>],
) -> Result<bool, String> {
    let ChosenSetting { entry, long, words, is_rule } = &new.chosen;
    if let Some(same) = chosen.iter().find(|one| !is_rule && key(&one.chosen.long) == key(long)) {
        let is_place = |of: &OptionValue| matches!(of.scope, Scope::Location(_));
        if same.chosen.words != *words && is_place(same.chosen.entry) && is_place(entry) {
            let origin = &same.chosen.entry.origin;
            let cause = "the locations of this command line have different values of";
            return Err(entry.origin.says(format!("{cause} `{long}` ({origin} has another): type it")));
        }
        return Ok(false);
    }
    if words.is_empty() {
        return Ok(true);
    }
    let typed = line.typed.iter().filter_map(|id| find(command, id));
    if let Some(typed) = typed.into_iter().find(|typed| exclude(command, typed, new.arg)) {
        let typed = typed.get_long().unwrap_or_default();
        let cause = format!("`{long}` cannot be used with --{typed} of the command line");
        let way = format!("omit --{typed}, or switch `{long}` off");
        return if new.protects() { Err(entry.origin.says(format!("{cause}: {way}"))) } else { Ok(false) };
    }
    let mut rivals = chosen.iter().filter(|one| !one.chosen.words.is_empty());
    match rivals.find(|one| exclude(command, one.arg, new.arg)) {
        Some(rival) if rival.rank == new.rank || rival.protects() || new.protects() => {
            let ChosenSetting { entry: other, long: others, .. } = &rival.chosen;
            let cause = format!("`{long}` cannot be used with `{others}` of {}: remove one", other.origin);
            Err(entry.origin.says(cause))
        }
        Some(_) => Ok(false),
        None => Ok(true),
    }
}

/// All entries that may apply, with their rank, by precedence.
fn candidates<'a>(settings: &'a Settings, line: &Invocation) -> Vec<(usize, &'a OptionValue)> {
    let mut all: Vec<(usize, &OptionValue)> = settings.variables.iter().map(|entry| (0, entry)).collect();
    for name in &line.names {
        let places = settings.places.iter().filter(|place| place.named.name == *name);
        let entries = places.flat_map(|place| &place.options).filter(|entry| of_store(entry).is_none());
        all.extend(entries.map(|entry| (1, entry)));
    }
    for (at, file) in settings.files.iter().enumerate() {
        let of_command =
            |entry: &&OptionValue| matches!(entry.scope, Scope::Command(name) if name == line.command);
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
