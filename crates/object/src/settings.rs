//! The user's settings for a store.

use std::fmt;
use std::time::Duration;

use haul_core::{IpFamily, Pace};

/// The keys of a user of `s3://`.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessKeys {
    /// The access key id.
    pub key_id: String,
    /// The secret key.
    pub secret_key: String,
    /// The session token of temporary keys.
    pub token: Option<String>,
}

impl fmt::Debug for AccessKeys {
    /// Without the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessKeys").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// How stores are reached.
#[derive(Clone, Debug, Default)]
pub struct StoreSettings {
    /// An endpoint other than the provider's: `http://HOST:PORT`.
    pub endpoint: Option<String>,
    /// The region; detected where the store reports it.
    pub region: Option<String>,
    /// The profile of `s3://` in place of the environment.
    pub profile: Option<String>,
    /// The keys of `s3://` in place of all other credentials.
    pub keys: Option<AccessKeys>,
    /// Requests carry no credentials, as for public buckets.
    pub anonymous: bool,
    /// A file of certificates to trust besides those of the system, of authorities or of the server itself.
    pub ca_bundle: Option<String>,
    /// Whether tokens may be sent to another host over `http://`, where they can be intercepted.
    pub insecure_http: bool,
    /// The version of IP for requests to the store; `None`: any.
    pub family: Option<IpFamily>,
    /// The most requests in flight of each kind: with content, with little, and to remove objects; 0 lets haul choose.
    pub streams: u32,
    /// A command fails if no request to or from a store has made progress for so long.
    pub timeout: Duration,
    /// The option that sets it, for hints; empty if none does.
    pub timeout_option: &'static str,
    /// The limits of the bytes per second that requests send and their answers bring.
    pub pace: Pace,
}

impl StoreSettings {
    /// Refuses settings that another kind of store has.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn check_s3_only(&self) -> Result<(), String> {
        if self.profile.is_some() {
            Err("only s3:// has profiles: omit --profile".to_owned())
        } else {
            Ok(())
        }
    }
}

/// An environment variable, unless it is unset or empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
