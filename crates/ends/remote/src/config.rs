//! How to reach a remote haul.

use std::net::IpAddr;
use std::path::PathBuf;

use haul_core::{Compress, Pace};
use haul_ssh::SshConfig;
use haul_transport::Ports;

/// How content travels to and from a remote haul.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Transport {
    /// Direct TLS connections if they are possible, else ssh.
    #[default]
    Auto,
    /// Direct TLS connections only.
    Tls,
    /// ssh only.
    Ssh,
}

/// How to reach a remote haul.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// How content travels.
    pub transport: Transport,
    /// The ports on which either end may listen for direct connections; any if `None`.
    pub ports: Option<Ports>,
    /// The local address for direct connections; the system's choice if `None`.
    pub bind: Option<IpAddr>,
    /// The congestion control of direct connections; haul's choice if `None`.
    pub congestion: Option<String>,
    /// The ssh command, and the timeout of connections.
    pub ssh: SshConfig,
    /// The command that starts haul on the remote host, as its login shell reads it: `haul` or `--remote-haul`.
    pub remote_haul: String,
    /// Connections to open at most; 0 lets haul choose.
    pub streams: u32,
    /// The memory budget of the remote process, in bytes.
    pub max_memory: u64,
    /// File-system operations that the remote process may make on each side in a second; `None` is no limit.
    pub iops: Option<u64>,
    /// The rate limits of all connections together.
    pub pace: Pace,
    /// How to compress content in transit.
    pub compress: Compress,
    /// The directory of the hints from earlier runs about the links to hosts; `None` for no hints.
    pub hints: Option<PathBuf>,
    /// Look for a direct connection only once content has to pass this host: see [`super::Broker`].
    pub defer: bool,
    /// Report also why a way for content cannot be used.
    pub explains: bool,
}
