//! Hosts that are reached in another way than the others of a run.

/// How haul reaches one host. A field that is `None` has the value that the run has for all hosts.
#[derive(Clone, Debug, Default)]
pub struct HostConfig {
    /// The host as in a location: `host`, which stands for every user, or `user@host`.
    pub host: String,
    /// The port, unless the location has one.
    pub port: Option<u16>,
    /// The ssh command and its options, split into words.
    pub shell: Option<Vec<String>>,
    /// The command that starts haul there.
    pub remote_haul: Option<String>,
    /// Upload this haul if the host has none.
    pub bootstrap: Option<bool>,
    /// Connections to open at most.
    pub streams: Option<u32>,
}
