//! `haul jobs`.

use clap::{Args, Subcommand};

use crate::values::parse_job;

const EXAMPLES: &str = "\
Examples:
  haul jobs                                   # running and last 100 jobs
  haul jobs show 12                           # result of job 12
  haul jobs limit 12 5M                       # limit it to 5 MiB per second
  haul jobs limit 12 '08:00,10M 19:00,off'    # limit it by a schedule
  haul jobs limit 12 off                      # remove the limit

To resume an interrupted job, run its command again. You can change only your
own jobs on this host.";

/// List running and finished jobs; change a job's bandwidth limit
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub(crate) struct JobsArgs {
    /// The subcommand; without one, all jobs are listed.
    #[command(subcommand)]
    pub(crate) action: Option<JobsAction>,
    /// Write JSON Lines to standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Subcommands of `haul jobs`.
#[derive(Debug, Subcommand)]
pub(crate) enum JobsAction {
    /// Show one job and its result
    Show {
        /// Job number
        #[arg(value_parser = parse_job)]
        id: u64,
        /// Write one JSON object to standard output
        #[arg(long)]
        json: bool,
    },
    /// Change a running job's bandwidth limit
    Limit {
        /// Job number
        #[arg(value_parser = parse_job)]
        id: u64,
        /// A rate, `off` or a schedule, as for --bwlimit
        #[arg(required = true, num_args = 1.., value_name = "RATE")]
        rate: Vec<String>,
    },
}
