//! The user's settings for a store.

use std::time::Duration;

/// How stores are reached.
#[derive(Clone, Debug, Default)]
pub struct StoreSettings {
    /// An endpoint other than the provider's: `http://HOST:PORT`.
    pub endpoint: Option<String>,
    /// The region; detected where the store reports it.
    pub region: Option<String>,
    /// Whether tokens may be sent to another host over `http://`, where they can be intercepted.
    pub insecure_http: bool,
    /// A command fails if no request to or from a store has made progress for so long.
    pub timeout: Duration,
}

/// An environment variable, unless it is unset or empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
