//! What a person may say about a store.

use std::time::Duration;

/// How stores are reached.
#[derive(Clone, Debug, Default)]
pub struct StoreSettings {
    /// Another address than the provider's: `http://HOST:PORT`.
    pub endpoint: Option<String>,
    /// The region; found by itself where the store tells it.
    pub region: Option<String>,
    /// Tokens may go to another machine over `http://`, where everybody on the way can read them.
    pub insecure_http: bool,
    /// A command fails when a store has neither taken nor given anything for so long.
    pub timeout: Duration,
}
