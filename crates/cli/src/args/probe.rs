//! `haul probe`.

use std::ffi::OsString;

use clap::Args;

use super::{FilterArgs, LinkArgs, OutputArgs};
use crate::settings::{DAY, number};

const USAGE: &str = "haul probe [OPTIONS] SRC DST\n       haul probe --doctor [OPTIONS] SRC [DST]";

const EXAMPLES: &str = "\
Examples:
  haul probe db1:/var/lib/mysql/ /var/lib/mysql/
  haul probe --quick 10 /srv/share/ nas:/srv/share/    a large tree, not counted to its end
  haul probe --doctor /srv/share/ nas:/srv/share/      is something in the way?

It reads a sample of SRC, writes at most 256 MiB in the folder of DST to files that are gone when it ends, and
loads the link for some seconds each.

Exit codes: 0 it was measured, and the doctor found nothing bad (warnings are fine); 1 something is bad, or
SRC is not there; 4 an end could not be reached.";

/// Measure both ends and the link: what limits, and how long a copy will take
#[derive(Debug, Args)]
#[command(args_override_self = true, override_usage = USAGE, after_help = EXAMPLES)]
pub(crate) struct ProbeArgs {
    /// The two ends, as they would be given to copy
    #[arg(value_name = "END", required = true, num_args = 1..=2)]
    pub(crate) ends: Vec<OsString>,
    /// Look for what commonly spoils a copy (buffers, limits, mounts, space, clocks …) and say the fix
    #[arg(long)]
    pub(crate) doctor: bool,
    /// Count SRC for so long at most; what is said of it is then a lower bound
    #[arg(long, value_name = "SECONDS", value_parser = |text: &str| number::<u32>(text, "seconds", 1, DAY))]
    pub(crate) quick: Option<u32>,
    /// What is looked at.
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// The remote end.
    #[command(flatten)]
    pub(crate) link: LinkArgs,
    /// What is shown.
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
