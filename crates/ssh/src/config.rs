//! How to start ssh, and where its messages go.

use std::path::PathBuf;

use haul_core::IpFamily;

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
    /// Whether the login outlives the run.
    pub persist: Option<Persist>,
}

impl SshConfig {
    /// Whether the command is ssh, and takes its options.
    #[must_use]
    pub fn is_ssh(&self) -> bool {
        !self.shell_given
            || self.shell.first().is_some_and(|program| program.rsplit('/').next() == Some("ssh"))
    }
}

/// A login that later runs use: the first connection stays a control master (`ControlPersist` of ssh_config(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persist {
    /// The directory of the control sockets, which only this user can reach.
    pub dir: PathBuf,
    /// How long it stays after its last use, in seconds.
    pub seconds: u32,
}
