//! Values from the settings that are not options: `crate::config` reads them. They arrive as the value of an argument
//! that nobody can type.

use std::ffi::OsString;
use std::sync::Arc;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use haul_object::AccessKeys;

const ID: &str = "given";

/// Values from the settings that are not options.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// The names of the options whose values are from the settings.
    pub(crate) options: Vec<String>,
    /// Filter rules that follow those of the command line: the name of the option, and its value.
    pub(crate) rules: Vec<(String, OsString)>,
    /// The named locations of the command line.
    pub(crate) locations: Vec<NamedLocation>,
    /// Hosts that are reached in their own way.
    pub(crate) hosts: Vec<HostOptions>,
}

/// A named location.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedLocation {
    /// The name without `@`.
    pub(crate) name: String,
    /// The location.
    pub(crate) location: String,
    /// The options that reach its store.
    pub(crate) store: StoreOptions,
}

/// The options to reach one store. `None`: the value for all stores applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreOptions {
    pub(crate) endpoint: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) profile: Option<String>,
    pub(crate) no_sign_request: Option<bool>,
    pub(crate) ca_cert: Option<String>,
    pub(crate) insecure_http: Option<bool>,
    /// Keys of the environment.
    pub(crate) keys: Option<AccessKeys>,
}

/// The options to reach one host. `None`: the value for all hosts applies.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostOptions {
    /// `host` or `user@host`.
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    pub(crate) rsh: Option<String>,
    pub(crate) remote_haul: Option<String>,
    pub(crate) bootstrap: Option<bool>,
    pub(crate) streams: Option<u32>,
}

/// The values from the settings; empty if there are no settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct GivenArgs(Arc<Given>);

impl GivenArgs {
    /// These values, in a test.
    #[cfg(test)]
    pub(crate) fn new(given: Given) -> Self {
        Self(Arc::new(given))
    }

    /// The values.
    pub(crate) fn get(&self) -> &Given {
        &self.0
    }

    /// Whether the settings gave the option with this long name, not the command line.
    pub(crate) fn has(&self, option: &str) -> bool {
        self.0.options.iter().any(|given| given == option)
    }

    /// The values that a parsed command line carries.
    pub(super) fn of(matches: &ArgMatches) -> Self {
        let given = matches.try_get_one::<Arc<Given>>(ID).ok().flatten();
        Self(given.map(Arc::clone).unwrap_or_default())
    }

    /// The argument that carries the values.
    pub(super) fn carrier(given: Given) -> Arg {
        let given = Arc::new(given);
        let parser = move |_: &str| Ok::<_, String>(Arc::clone(&given));
        Arg::new(ID).long(ID).hide(true).default_value("").value_parser(parser)
    }
}

impl FromArgMatches for GivenArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self::of(matches))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::of(matches);
        Ok(())
    }
}

impl Args for GivenArgs {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}
