//! Options to reach a remote host and to start haul there.

use clap::Args;
use haul_core::IpFamily;

use super::{FamilyArgs, MissingHaulArgs, ShareArgs};
use crate::values::parse_timeout;

/// Options to reach a remote host and to start haul there.
#[derive(Clone, Debug, Args)]
pub(crate) struct HostArgs {
    /// Remote shell command, for example 'ssh -p 2222'; haul appends the host
    #[arg(short = 'e', long, value_name = "COMMAND", help_heading = "Remote hosts")]
    pub(crate) rsh: Option<String>,
    #[command(flatten)]
    pub(crate) family: FamilyArgs,
    /// Keep the ssh login for TIME (60s) after the run, for later runs with this option
    ///
    /// The first run leaves an ssh in the background (ControlPersist of ssh_config(5)). A run with the same host, user,
    /// port and -e uses it: it starts about a second sooner and asks for no password. Its socket is in $XDG_RUNTIME_DIR/haul, or in haul/ssh
    /// below $XDG_STATE_HOME or ~/.local/state, where only you can reach it. If ssh_config sets ControlPath for the host,
    /// that decides.
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "60s",
        value_parser = parse_timeout,
        help_heading = "Remote hosts"
    )]
    pub(crate) persist: Option<u32>,
    /// Path of haul on the remote host
    #[arg(long, value_name = "PATH", default_value = "haul", help_heading = "Remote hosts")]
    pub(crate) remote_haul: String,
    #[command(flatten)]
    pub(crate) missing: MissingHaulArgs,
    #[command(flatten)]
    pub(crate) share: ShareArgs,
}

impl HostArgs {
    /// The version of IP.
    pub(crate) fn family(&self) -> Option<IpFamily> {
        self.family.chosen()
    }

    /// Options for a share alone.
    pub(crate) fn of_share(share: ShareArgs, family: FamilyArgs) -> Self {
        Self {
            rsh: None,
            family,
            persist: None,
            remote_haul: "haul".to_owned(),
            missing: MissingHaulArgs::default(),
            share,
        }
    }
}
