//! One option with a value, as it is written in the settings.

use super::origin::Origin;

/// Which command lines an option is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Of all commands that have it.
    Defaults,
    /// Of one command.
    Command(&'static str),
    /// Of all command lines with a named location.
    Location(String),
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// `true` or `false`.
    Flag(bool),
    /// A string or a number.
    Text(String),
    /// Several of them.
    List(Vec<String>),
    /// The text of a variable: a value or a truth value, as the option takes it.
    Untyped(String),
}

/// One option with a value.
#[derive(Clone, Debug)]
pub(super) struct OptionValue {
    pub(super) scope: Scope,
    /// The long name of the option, without dashes, as it is written.
    pub(super) name: String,
    pub(super) value: Value,
    pub(super) origin: Origin,
}

impl OptionValue {
    /// The name by which settings of one option replace each other: an option and its opposite have the same one.
    pub(super) fn key(&self) -> &str {
        key(&self.name)
    }
}

/// The name that an option and its opposite share.
pub(super) fn key(long: &str) -> &str {
    long.strip_prefix("no-").unwrap_or(long)
}
