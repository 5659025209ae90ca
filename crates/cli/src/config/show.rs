//! The settings as lines, with the place that each value comes from.

use haul_core::path::printable;

use super::choose::{Invocation, choose};
use super::entry::{OptionValue, Scope, Value};
use super::mc_hosts::shown;
use super::origin::Origin;
use super::quote::{quoted, quoted_list};
use super::settings::Settings;
use super::sources::Sources;
use crate::args::is_rule;

/// The aliases of mc, without keys.
pub(crate) fn show_aliases(sources: &Sources) -> Vec<String> {
    shown(sources).into_iter().map(|(name, value, origin)| text(&name, &value, &origin)).collect()
}

/// All settings that count for some command line.
pub(crate) fn show(settings: &Settings) -> Vec<String> {
    let mut found: Vec<(String, &OptionValue)> = Vec::new();
    let all = settings.variables.iter().chain(settings.files.iter().flatten());
    for entry in all {
        let is_replaced = |(_, other): &(String, &OptionValue)| {
            let is_wider = settings.variables.iter().any(|variable| variable.key() == entry.key());
            other.key() == entry.key() && (is_wider || other.scope == entry.scope) && !is_rule(&entry.name)
        };
        if !found.iter().any(is_replaced) {
            found.push((name(entry), entry));
        }
    }
    for (table, named) in &settings.named {
        found.extend(
            named
                .entries
                .iter()
                .map(|entry| (format!("{table}.{}.{}", quoted(&named.name), entry.name), entry)),
        );
    }
    found.into_iter().map(|(name, entry)| line(&name, entry)).collect()
}

/// The settings that count for a command.
///
/// # Errors
/// One line, if two settings of one table exclude each other.
pub(crate) fn show_command(settings: &Settings, command: &str) -> Result<Vec<String>, String> {
    let command = Invocation { command: command.to_owned(), ..Invocation::default() };
    let chosen = choose(settings, &command)?;
    Ok(chosen.iter().map(|chosen| line(&chosen.entry.name, chosen.entry)).collect())
}

fn name(entry: &OptionValue) -> String {
    match &entry.scope {
        Scope::Command(command) => format!("{command}.{}", entry.name),
        Scope::Defaults | Scope::Location(_) => entry.name.clone(),
    }
}

fn line(name: &str, entry: &OptionValue) -> String {
    let value = match &entry.value {
        Value::Flag(on) => on.to_string(),
        Value::Text(text) | Value::Untyped(text) => quoted(text),
        Value::List(texts) => quoted_list(texts),
    };
    text(name, &value, &entry.origin)
}

fn text(name: &str, value: &str, origin: &Origin) -> String {
    let line = format!("{:<40} # {origin}", format!("{name} = {value}"));
    format!("{}\n", printable(line.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn each_value_has_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ["user", "system"].map(|name| dir.path().join(name));
        let texts = [
            "[defaults]\nnice = true\nexclude = ['a']\n[locations.nas]\nlocation = 'nas:/srv'\n",
            "[defaults]\nnice = false\nexclude = ['b']\niops = 5\n[copy]\niops = 6\n[hosts.db1]\nport = 22\n",
        ];
        for (path, text) in paths.iter().zip(texts) {
            fs::write(path, text).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        let settings = |variables: &[(&str, &str)]| {
            Settings::load(&Sources::of_test(paths.to_vec(), variables)).unwrap().unwrap()
        };
        let short = |lines: Vec<String>| -> Vec<String> {
            let dir = format!("{}/", dir.path().display());
            let lines = lines.iter().map(|line| line.replace(&dir, ""));
            lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
        };
        assert_eq!(
            short(show(&settings(&[]))),
            [
                "nice = true # user:2",
                "exclude = [\"a\"] # user:3",
                "exclude = [\"b\"] # system:3",
                "iops = \"5\" # system:4",
                "copy.iops = \"6\" # system:6",
                "locations.\"nas\".location = \"nas:/srv\" # user:5",
                "hosts.\"db1\".port = \"22\" # system:8"
            ]
        );
        let all = short(show(&settings(&[("IOPS", "7")])));
        assert_eq!(all[0], "iops = \"7\" # HAUL_IOPS");
        assert_eq!(all.iter().filter(|line| line.contains("iops")).count(), 1, "{all:?}");
        let copy = short(show_command(&settings(&[]), "copy").unwrap());
        assert!(copy.contains(&"iops = \"6\" # system:6".to_owned()) && copy.len() == 4, "{copy:?}");
    }
}
