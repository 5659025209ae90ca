//! All settings of a process, checked.

use std::path::Path;

use clap::Command;

use super::check::{check, is_meant};
use super::document::{NamedTable, parse};
use super::entry::{OptionValue, Scope, Value};
use super::hosts::host;
use super::origin::Origin;
use super::places::{ConfiguredLocation, place};
use super::sources::Sources;
use crate::args::{HostOptions, command};

/// All settings of a process, checked, those that take precedence first.
pub(crate) struct Settings {
    /// The parser of the command line, by which they were checked.
    pub(super) all: Command,
    pub(super) variables: Vec<OptionValue>,
    /// The options of each file.
    pub(super) files: Vec<Vec<OptionValue>>,
    pub(super) places: Vec<ConfiguredLocation>,
    pub(super) hosts: Vec<HostOptions>,
    /// The tables of places and hosts as they are written, with `locations` or `hosts`.
    pub(super) named: Vec<(&'static str, NamedTable)>,
}

impl Settings {
    /// Reads and checks the settings; `None`: there are none.
    ///
    /// # Errors
    /// One line with the file and its line, if a file cannot be read or trusted, or a value is invalid.
    pub(crate) fn load(sources: &Sources) -> Result<Option<Self>, String> {
        let texts = sources.read()?;
        if texts.is_empty() && sources.variables.is_empty() {
            return Ok(None);
        }
        let mut all = command();
        all.build();
        let mut settings = Self {
            variables: variables(sources, &all)?,
            all,
            files: Vec::new(),
            places: Vec::new(),
            hosts: Vec::new(),
            named: Vec::new(),
        };
        for (path, text) in texts {
            settings.add(path, &text, sources.home.as_deref())?;
        }
        Ok(Some(settings))
    }

    /// Adds a file that the ones before take precedence over.
    fn add(&mut self, path: &Path, text: &str, home: Option<&Path>) -> Result<(), String> {
        let mut document = parse(path, text)?;
        let locations = document.locations.iter_mut().flat_map(|named| &mut named.entries);
        for entry in document.options.iter_mut().chain(locations.filter(|entry| entry.name != "location")) {
            if check(entry, &self.all)? {
                make_absolute(entry, home)?;
            }
        }
        self.files.push(document.options);
        for named in document.locations {
            let place = place(&named)?;
            if !self.places.iter().any(|known| known.named.name == named.name) {
                self.places.push(place);
                self.named.push(("locations", named));
            }
        }
        for named in document.hosts {
            self.hosts.push(host(&named)?);
            self.named.push(("hosts", named));
        }
        Ok(())
    }
}

/// The options that variables give. A variable that resembles no option is not for haul.
fn variables(sources: &Sources, all: &Command) -> Result<Vec<OptionValue>, String> {
    let mut entries = Vec::new();
    for (name, value) in &sources.variables {
        let origin = Origin::Variable(format!("HAUL_{name}"));
        let name = name.to_ascii_lowercase().replace('_', "-");
        if !is_meant(&name, all) {
            continue;
        }
        let Some(value) = value.to_str() else { return Err(origin.says("it is not UTF-8 text")) };
        let entry =
            OptionValue { scope: Scope::Defaults, name, value: Value::Untyped(value.to_owned()), origin };
        // The paths of a variable are those of the command line beside it.
        let _names_files = check(&entry, all)?;
        entries.push(entry);
    }
    Ok(entries)
}

/// Replaces `~/` at the start of the names of files by the home directory.
fn make_absolute(entry: &mut OptionValue, home: Option<&Path>) -> Result<(), String> {
    let OptionValue { name, value, origin, .. } = entry;
    let texts = match value {
        Value::Text(text) => std::slice::from_mut(text),
        Value::List(texts) => texts.as_mut_slice(),
        Value::Flag(_) | Value::Untyped(_) => return Ok(()),
    };
    for text in texts.iter_mut().filter(|text| !text.starts_with('/')) {
        let Some(below) = text.strip_prefix("~/") else {
            let cause = "depends on the directory that haul runs in: begin with / or ~/";
            return Err(origin.says(format!("{name}: `{text}` {cause}")));
        };
        let Some(home) = home.and_then(Path::to_str) else {
            return Err(origin.says("the home directory is not known: set HOME"));
        };
        *text = format!("{}/{below}", home.trim_end_matches('/'));
    }
    Ok(())
}
