//! How the remote end is reached, and what a process may take.

use std::net::IpAddr;

use clap::{Args, ValueEnum};
use haul_remote::{Ports, Transport};

use super::MissingHaulArgs;
use crate::settings::{DAY, number, parse_address, parse_memory, parse_ports};

/// The words of `--transport`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum TransportArg {
    /// Around ssh if there is a way
    #[default]
    Auto,
    /// Around ssh or not at all
    Tls,
    /// Through ssh
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

/// Options for ends on other machines.
#[derive(Debug, Args)]
pub(crate) struct LinkArgs {
    /// The remote shell and its options, for example 'ssh -p 2222'; nothing is added but the host
    #[arg(short = 'e', long, value_name = "COMMAND", help_heading = "Other machines")]
    pub(crate) rsh: Option<String>,
    /// Where haul is on the other machine
    #[arg(long, value_name = "PATH", default_value = "haul", help_heading = "Other machines")]
    pub(crate) remote_haul: String,
    /// Where haul is missing on the other machine.
    #[command(flatten)]
    pub(crate) missing: MissingHaulArgs,
    /// Connections to each other machine, at most [default: as many as help]
    #[arg(long, value_name = "N", value_parser = |text: &str| number::<u32>(text, "connections", 1, 512),
          help_heading = "Other machines")]
    pub(crate) streams: Option<u32>,
    /// How content travels to and from other machines: `tls` over TCP connections of haul's own, which need an open
    /// port at one end; `ssh` through ssh; `auto` around ssh if there is a way
    #[arg(long, value_name = "HOW", value_enum, default_value_t, help_heading = "Other machines")]
    pub(crate) transport: TransportArg,
    /// Ports that may be listened on for such connections, at either end [default: any]
    #[arg(long, value_name = "FROM-TO", value_parser = parse_ports, help_heading = "Other machines")]
    pub(crate) ports: Option<Ports>,
    /// The address of this machine that such connections use [default: as the system routes]
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address, help_heading = "Other machines")]
    pub(crate) bind: Option<IpAddr>,
    /// The congestion control of such connections [default: bbr over a distance, where the system has it]
    #[arg(long, value_name = "NAME", help_heading = "Other machines")]
    pub(crate) congestion: Option<String>,
    /// Give up a connection that shows no sign of life for so long; tell of a file system here that does not answer
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
          value_parser = |text: &str| number::<u32>(text, "seconds", 1, DAY), help_heading = "Other machines")]
    pub(crate) timeout: u32,
    /// Memory for content, in each haul process
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_memory,
          help_heading = "Limits")]
    pub(crate) max_memory: u64,
}
