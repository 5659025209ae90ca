//! The tables of named locations.

use haul_core::Location;

use super::document::NamedTable;
use super::entry::{OptionValue, Value, key};
use crate::args::{NamedLocation, StoreOptions};

/// The options that reach a store: they apply to the location, not to the whole command line.
const STORE: [&str; 6] = ["endpoint", "region", "profile", "no-sign-request", "ca-cert", "insecure-http"];

/// A named location, and the options of the command lines that it is on.
#[derive(Clone, Debug)]
pub(super) struct ConfiguredLocation {
    pub(super) named: NamedLocation,
    pub(super) options: Vec<OptionValue>,
}

/// Reads the table of a location. An error is one line.
pub(super) fn place(named: &NamedTable) -> Result<ConfiguredLocation, String> {
    let name = &named.name;
    if name.is_empty() || name.contains(['/', ':', '@']) {
        return Err(named.origin.says(format!("`{name}` cannot name a location: leave out / : and @")));
    }
    let mut place = ConfiguredLocation {
        named: NamedLocation { name: name.clone(), ..Default::default() },
        options: Vec::new(),
    };
    for entry in &named.entries {
        match (entry.name.as_str(), &entry.value) {
            ("location", Value::Text(text)) => {
                let parsed = Location::parse(text.as_bytes());
                let location = parsed.map_err(|error| entry.origin.says(error.cause()))?;
                if let Location::Local(path) = &location
                    && !path.starts_with(b"/")
                {
                    return Err(entry.origin.says("a path of this machine begins with /"));
                }
                place.named.location.clone_from(text);
            }
            ("location", _) => return Err(entry.origin.says("`location` takes a string")),
            _ => place.options.push(entry.clone()),
        }
    }
    if place.named.location.is_empty() {
        return Err(named
            .origin
            .says(format!("the location `{name}` lacks `location`, as in location = \"nas:/srv\"")));
    }
    let NamedLocation { store, .. } = place.located(&|_| false);
    if store.no_sign_request == Some(true) && store.profile.is_some() {
        let cause = "`profile` cannot be used with `no-sign-request`: remove one";
        return Err(named.origin.says(cause));
    }
    Ok(place)
}

impl ConfiguredLocation {
    /// The location with the options that reach its store, but those that the command line or a variable gives.
    pub(super) fn located(&self, is_taken: &dyn Fn(&str) -> bool) -> NamedLocation {
        let mut store = StoreOptions::default();
        for (option, entry) in self.options.iter().filter_map(|entry| Some((of_store(entry)?, entry))) {
            if is_taken(option) {
                continue;
            }
            let text = || match &entry.value {
                Value::Text(text) => Some(text.clone()),
                Value::Flag(_) | Value::List(_) | Value::Untyped(_) => None,
            };
            // The entry may have the name of the opposite.
            let flag = || match entry.value {
                Value::Flag(on) => Some(on == (entry.name == option)),
                Value::Text(_) | Value::List(_) | Value::Untyped(_) => None,
            };
            match option {
                "endpoint" => store.endpoint = text(),
                "region" => store.region = text(),
                "profile" => store.profile = text(),
                "ca-cert" => store.ca_cert = text(),
                "no-sign-request" => store.no_sign_request = flag(),
                _ => store.insecure_http = flag(),
            }
        }
        NamedLocation { store, ..self.named.clone() }
    }
}

/// The option that an entry gives, if it reaches a store.
pub(super) fn of_store(entry: &OptionValue) -> Option<&'static str> {
    STORE.into_iter().find(|option| key(option) == entry.key())
}
