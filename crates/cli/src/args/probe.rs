//! `haul probe`.

use std::ffi::OsString;

use clap::Args;

use super::{FilterArgs, GivenArgs, LinkArgs, OutputArgs};
use crate::values::parse_timeout;

const USAGE: &str = "haul probe [OPTIONS] SRC DST\n       haul probe --doctor [OPTIONS] SRC [DST]";

const EXAMPLES: &str = "\
Examples:
  haul probe db1:/var/lib/mysql/ /var/lib/mysql/
  haul probe --quick 10 /srv/share/ nas:/srv/share/    # count for 10 s only
  haul probe --doctor /srv/share/ nas:/srv/share/      # look for problems

haul reads a sample of SRC, writes up to 256 MiB of temporary files to the
directory of DST, and loads the link for a few seconds.

Exit codes:
  0  measured; --doctor found no problem (warnings are allowed)
  1  --doctor found a problem, or SRC does not exist
  4  connection or login failed";

/// Find the bottleneck and predict how long a copy will take
#[derive(Debug, Args)]
#[command(args_override_self = true, override_usage = USAGE, after_help = EXAMPLES)]
pub(crate) struct ProbeArgs {
    /// Source and destination, as for `haul copy`
    #[arg(value_name = "LOCATION", required = true, num_args = 1..=2)]
    pub(crate) ends: Vec<OsString>,
    /// Check for common problems (buffers, limits, mounts, space, clocks) and suggest fixes
    #[arg(long)]
    pub(crate) doctor: bool,
    /// Count SRC for at most TIME (30s, 5m); its figures are then lower bounds
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    pub(crate) quick: Option<u32>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) given: GivenArgs,
    #[command(flatten)]
    pub(crate) link: LinkArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
