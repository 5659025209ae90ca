//! How a remote host is reached, and what runs there.

use clap::Args;

use super::MissingHaulArgs;

/// How a remote host is reached, and what runs there.
#[derive(Clone, Debug, Args)]
pub(crate) struct HostArgs {
    /// Remote shell command, for example 'ssh -p 2222'; haul appends the host
    #[arg(short = 'e', long, value_name = "COMMAND", help_heading = "Remote hosts")]
    pub(crate) rsh: Option<String>,
    /// Use IPv4 only, for ssh, direct connections and object stores
    ///
    /// If -e names another program than ssh, add the option to that command.
    #[arg(short = '4', long, overrides_with = "ipv6", help_heading = "Remote hosts")]
    pub(crate) ipv4: bool,
    /// Use IPv6 only, like -4
    #[arg(short = '6', long, overrides_with = "ipv4", help_heading = "Remote hosts")]
    pub(crate) ipv6: bool,
    /// Path of haul on the remote host
    #[arg(long, value_name = "PATH", default_value = "haul", help_heading = "Remote hosts")]
    pub(crate) remote_haul: String,
    #[command(flatten)]
    pub(crate) missing: MissingHaulArgs,
}
