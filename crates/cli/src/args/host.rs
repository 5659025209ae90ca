//! Options for a remote host that is only read from.

use clap::Args;

use super::link::{LinkArgs, TransportArg};
use super::missing::MissingHaulArgs;

/// Memory for buffers: a listing needs little.
const MEMORY: u64 = 64 << 20;

/// Options for a remote host that is only listed.
#[derive(Clone, Debug, Args)]
pub(crate) struct HostArgs {
    /// Remote shell command, for example 'ssh -p 2222'; haul appends the host
    #[arg(short = 'e', long, value_name = "COMMAND", help_heading = "Remote hosts")]
    pub(crate) rsh: Option<String>,
    /// Path of haul on the remote host
    #[arg(long, value_name = "PATH", default_value = "haul", help_heading = "Remote hosts")]
    pub(crate) remote_haul: String,
    /// Remote hosts without haul.
    #[command(flatten)]
    pub(crate) missing: MissingHaulArgs,
}

impl HostArgs {
    /// The options of a link that carries no content: one connection through ssh.
    pub(crate) fn link(&self, timeout: u32) -> LinkArgs {
        LinkArgs {
            rsh: self.rsh.clone(),
            remote_haul: self.remote_haul.clone(),
            missing: self.missing.clone(),
            streams: None,
            transport: TransportArg::Ssh,
            ports: None,
            bind: None,
            congestion: None,
            timeout,
            max_memory: MEMORY,
        }
    }
}
