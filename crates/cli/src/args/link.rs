//! Options for remote hosts, and the memory of a process.

use std::net::IpAddr;

use clap::{Args, ValueEnum};
use haul_remote::{Ports, Transport};

use super::HostArgs;
use crate::values::{number, parse_address, parse_memory, parse_ports, parse_timeout};

/// Memory for buffers of a listing.
const LISTING_MEMORY: u64 = 64 << 20;

/// The values of `--transport`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum TransportArg {
    /// Direct TLS connections if a port is reachable, else ssh
    #[default]
    Auto,
    /// Direct TLS connections only
    Tls,
    /// ssh only
    Ssh,
}

impl From<TransportArg> for Transport {
    fn from(word: TransportArg) -> Self {
        match word {
            TransportArg::Auto => Self::Auto,
            TransportArg::Tls => Self::Tls,
            TransportArg::Ssh => Self::Ssh,
        }
    }
}

/// Options for the connections with a remote host.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConnectionArgs {
    /// Maximum number of connections per remote host, server or store [default: automatic]
    #[arg(long, value_name = "N", value_parser = |text: &str| number::<u32>(text, "connections", 1, 512),
          help_heading = "Remote hosts")]
    pub(crate) streams: Option<u32>,
    /// How data is sent: `tls` over direct TLS connections, which need a reachable port on either host; `ssh` through
    /// ssh; `auto` over direct TLS if possible, else ssh
    #[arg(long, value_name = "HOW", value_enum, default_value_t, help_heading = "Remote hosts")]
    pub(crate) transport: TransportArg,
    /// Port range for direct connections, on both hosts [default: any]
    #[arg(long, value_name = "FROM-TO", value_parser = parse_ports, help_heading = "Remote hosts")]
    pub(crate) ports: Option<Ports>,
    /// Local address of direct connections [default: chosen by the system]
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address, help_heading = "Remote hosts")]
    pub(crate) bind: Option<IpAddr>,
    /// TCP congestion control of direct connections [default: bbr on long round trips, if available]
    #[arg(long, value_name = "NAME", help_heading = "Remote hosts")]
    pub(crate) congestion: Option<String>,
}

/// Options for remote hosts.
#[derive(Debug, Args)]
pub(crate) struct LinkArgs {
    #[command(flatten)]
    pub(crate) host: HostArgs,
    #[command(flatten)]
    pub(crate) connections: ConnectionArgs,
    /// Drop connections that are silent for TIME; warn about a local file system that hangs as long
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_timeout, help_heading = "Remote hosts")]
    pub(crate) timeout: u32,
    /// Memory for buffers, per haul process
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_memory,
          help_heading = "Limits")]
    pub(crate) max_memory: u64,
}

impl LinkArgs {
    /// Options for a host that is only listed: one connection through ssh, and little memory.
    pub(crate) fn listing(host: HostArgs, timeout: u32) -> Self {
        Self {
            host,
            connections: ConnectionArgs { transport: TransportArg::Ssh, ..ConnectionArgs::default() },
            timeout,
            max_memory: LISTING_MEMORY,
        }
    }
}
