//! How to start ssh, and where its messages go.

use std::sync::Arc;

use haul_core::IpFamily;

/// Receives messages for the user.
pub type Note = Arc<dyn Fn(&str) + Send + Sync>;

/// How to reach a host through ssh.
#[derive(Clone, Debug)]
pub struct SshConfig {
    /// The ssh command and its options, split into words; `["ssh"]` unless `-e` was given.
    pub shell: Vec<String>,
    /// Whether `shell` came from `-e`: then haul adds nothing of its own but port, host and command, unless its
    /// program is called `ssh`.
    pub shell_given: bool,
    /// The version of IP that ssh uses; `None` leaves it to ssh. Programs that are not ssh are not told.
    pub family: Option<IpFamily>,
    /// Seconds of silence after which a connection counts as dead.
    pub timeout: u32,
}
