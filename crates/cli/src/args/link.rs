//! How the far end is reached, and what a process may take.

use clap::Args;

use super::MissingHaulArgs;
use crate::settings::parse_size;

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
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=512),
          help_heading = "Other machines")]
    pub(crate) streams: Option<u32>,
    /// Give up a connection that shows no sign of life for so long
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u32).range(1..=86_400), help_heading = "Other machines")]
    pub(crate) timeout: u32,
    /// Memory for content, in each haul process
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_size,
          help_heading = "Limits")]
    pub(crate) max_memory: u64,
}
