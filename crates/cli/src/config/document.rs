//! A settings file as tables of options, locations and hosts, with the line of each.

use std::path::Path;
use std::sync::Arc;

use toml_edit::{Document as Toml, Item, TableLike, Value as TomlValue};

use haul_core::path::printable;

use super::entry::{OptionValue, Scope, Value};
use super::origin::Origin;
use crate::args::COMMANDS;

/// The characters of an invalid line that a message shows.
const SHOWN: usize = 40;

/// A table with a name: a location or a host.
#[derive(Clone, Debug)]
pub(super) struct NamedTable {
    pub(super) name: String,
    pub(super) origin: Origin,
    /// The entries of the table, with the scope of a location.
    pub(super) entries: Vec<OptionValue>,
}

/// The content of a settings file.
#[derive(Clone, Debug, Default)]
pub(super) struct Document {
    /// Options of `[defaults]` and of the tables of commands.
    pub(super) options: Vec<OptionValue>,
    pub(super) locations: Vec<NamedTable>,
    pub(super) hosts: Vec<NamedTable>,
}

/// Reads a settings file. An error is one line with its number.
pub(super) fn parse(path: &Path, text: &str) -> Result<Document, String> {
    let file = ConfigFile { path: path.into(), text };
    let toml = Toml::parse(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        file.at(error.span()).says(invalid(file.line(start), error.message()))
    })?;
    let mut document = Document::default();
    for (name, item) in toml.iter() {
        let origin = file.of_key(toml.as_table(), name);
        let command = COMMANDS.into_iter().find(|command| *command == name);
        match (name, command) {
            ("locations", _) => document.locations = file.named(name, &origin, item)?,
            ("hosts", _) => document.hosts = file.named(name, &origin, item)?,
            ("defaults", _) => {
                document.options.extend(file.entries(name, &origin, item, &Scope::Defaults)?);
            }
            (_, Some(command)) => {
                document.options.extend(file.entries(name, &origin, item, &Scope::Command(command))?);
            }
            (_, None) if item.as_table_like().is_none() => {
                return Err(origin.says(format!("`{name}` is outside of a table: put it below [defaults]")));
            }
            (_, None) => {
                let tables = "[defaults], [locations.NAME], [hosts.NAME]";
                let commands = COMMANDS.map(|command| format!("[{command}]")).join(", ");
                return Err(
                    origin.says(format!("no table is named `{name}`: there are {tables}, {commands}"))
                );
            }
        }
    }
    Ok(document)
}

struct ConfigFile<'a> {
    path: Arc<Path>,
    text: &'a str,
}

impl ConfigFile<'_> {
    /// The line of a position.
    fn at(&self, span: Option<std::ops::Range<usize>>) -> Origin {
        let end = span.map_or(0, |span| span.start).min(self.text.len());
        let line = self.text.as_bytes()[..end].iter().filter(|byte| **byte == b'\n').count() + 1;
        Origin::Line(Arc::clone(&self.path), line)
    }

    /// The text of the line of a position.
    fn line(&self, at: usize) -> &str {
        let before = self.text.get(..at).unwrap_or(self.text);
        self.text.lines().nth(before.matches('\n').count()).unwrap_or_default().trim()
    }

    /// The line of a key, or of the header of its table.
    fn of_key(&self, table: &dyn TableLike, name: &str) -> Origin {
        let found = table.get_key_value(name);
        self.at(found.and_then(|(key, item)| key.span().or_else(|| item.span())))
    }

    fn table<'a>(&self, name: &str, origin: &Origin, item: &'a Item) -> Result<&'a dyn TableLike, String> {
        item.as_table_like()
            .ok_or_else(|| origin.says(format!("`{name}` is a table: write [{name}] on a line of its own")))
    }

    fn named(&self, name: &str, origin: &Origin, item: &Item) -> Result<Vec<NamedTable>, String> {
        let table = self.table(&format!("{name}.NAME"), origin, item)?;
        let named = table.iter().map(|(own, item)| {
            let origin = self.of_key(table, own);
            let entries =
                self.entries(&format!("{name}.NAME"), &origin, item, &Scope::Location(own.to_owned()))?;
            Ok(NamedTable { name: own.to_owned(), origin, entries })
        });
        named.collect()
    }

    fn entries(
        &self,
        name: &str,
        origin: &Origin,
        item: &Item,
        scope: &Scope,
    ) -> Result<Vec<OptionValue>, String> {
        let table = self.table(name, origin, item)?;
        let entries = table.iter().map(|(name, item)| {
            let origin = self.of_key(table, name);
            let wrong = |what: &str| {
                origin
                    .says(format!("`{name}` is {what}: a value is true, false, a number, a string or a list"))
            };
            let value = match item.as_value() {
                None => return Err(wrong("a table")),
                Some(TomlValue::Boolean(flag)) => Value::Flag(*flag.value()),
                Some(TomlValue::Array(list)) => {
                    let texts =
                        list.iter().map(|value| text(value).ok_or_else(|| wrong("a list of other things")));
                    Value::List(texts.collect::<Result<_, _>>()?)
                }
                Some(one) => Value::Text(text(one).ok_or_else(|| wrong("a date or a table"))?),
            };
            Ok(OptionValue { scope: scope.clone(), name: name.to_owned(), value, origin })
        });
        entries.collect()
    }
}

/// Why a line is not valid TOML; `said` is the message of the parser.
fn invalid(line: &str, said: &str) -> String {
    let shown: String = line.chars().take(SHOWN).collect();
    let (key, value) = line.split_once('=').map_or((&*shown, None), |(key, value)| (key.trim(), Some(value)));
    let key = printable(key.as_bytes());
    match value {
        _ if said.contains("duplicate") => format!("`{key}` is there twice: remove one"),
        _ if line.starts_with('[') => {
            format!("`{key}` is not the name of a table: write [TABLE] on a line of its own")
        }
        Some("") => format!("`{key}` has no value"),
        Some(_) => {
            format!("`{key}` has no valid value: write true, false, a number, a string in quotes or a list")
        }
        None => format!("`{key}` is neither a table nor an option: write [TABLE] or NAME = VALUE"),
    }
}

/// The text of a string or a number.
fn text(value: &TomlValue) -> Option<String> {
    match value {
        TomlValue::String(text) => Some(text.value().clone()),
        TomlValue::Integer(number) => Some(number.value().to_string()),
        TomlValue::Float(number) => Some(number.value().to_string()),
        TomlValue::Boolean(_) | TomlValue::Datetime(_) | TomlValue::Array(_) | TomlValue::InlineTable(_) => {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Document, String> {
        parse(Path::new("/c"), text)
    }

    #[test]
    fn tables_have_values_with_lines() {
        let found = read(
            "[defaults]\nnice = true\nbwlimit = '10M'\n[copy]\nexclude = ['a', 'b']\nstreams = 4\n\n\
             [locations.nas]\nlocation = 'nas:/srv'\n[hosts.\"me@db1\"]\nport = 2222\n",
        )
        .unwrap();
        let told: Vec<String> = found
            .options
            .iter()
            .map(|entry| format!("{:?} {} {:?} {}", entry.scope, entry.name, entry.value, entry.origin))
            .collect();
        assert_eq!(
            told,
            [
                "Defaults nice Flag(true) /c:2",
                "Defaults bwlimit Text(\"10M\") /c:3",
                "Command(\"copy\") exclude List([\"a\", \"b\"]) /c:5",
                "Command(\"copy\") streams Text(\"4\") /c:6"
            ]
        );
        assert_eq!((found.locations[0].name.as_str(), found.hosts[0].name.as_str()), ("nas", "me@db1"));
        assert_eq!(found.hosts[0].entries[0].origin.to_string(), "/c:11");
        assert!(read("").unwrap().options.is_empty());
    }

    #[test]
    fn errors_are_one_line_with_its_number() {
        for (text, line, what) in [
            ("[defaults]\nnice = ", 2, "`nice` has no value"),
            ("[defaults]\nbwlimit = 10M\niops = 5\n", 2, "`bwlimit` has no valid value: write true, "),
            ("[defaults]\nrsh = \"ssh\n", 2, "`rsh` has no valid value: "),
            ("[defaults]\nnice\n", 2, "`nice` is neither a table nor an option: "),
            ("[defaults\nnice = true\n", 1, "`[defaults` is not the name of a table: "),
            ("[defaults]\nnice = true\nnice = true\n", 3, "`nice` is there twice: remove one"),
            ("[defaults]\n[defaults]\n", 2, "`[defaults]` is there twice: remove one"),
            ("\nnice = true\n", 2, "[defaults]"),
            ("\n\n[cpoy]\nnice = true\n", 3, "cpoy"),
            ("[defaults]\nx = { a = 1 }\n", 2, "table"),
            ("[defaults]\nx = 1979-05-27\n", 2, "date"),
            ("[defaults]\nx = [[1]]\n", 2, "list"),
            ("locations = 1\n", 1, "[locations.NAME]"),
            ("[locations]\nnas = 'x'\n", 2, "[locations.NAME]"),
            ("[hosts]\ndb = []\n", 2, "[hosts.NAME]"),
            ("[[copy]]\nx = 1\n", 1, "[copy]"),
            ("copy = 1", 1, "[copy]"),
            ("\u{0}", 1, ""),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(&format!("/c:{line}: ")) && error.contains(what), "{text:?}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }

    #[test]
    fn nested_content_ends_nothing() {
        let deep = format!("[defaults]\nx = {}1{}\n", "[".repeat(50_000), "]".repeat(50_000));
        assert!(read(&deep).unwrap_err().starts_with("/c:2: "));
        let tables = format!("[{}]\n", vec!["a"; 5000].join("."));
        assert!(read(&tables).is_err());
    }
}
