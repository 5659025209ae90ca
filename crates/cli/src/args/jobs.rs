//! `haul jobs`.

use clap::{Args, Subcommand};

use crate::settings::parse_job;

const EXAMPLES: &str = "\
Examples:
  haul jobs                                    what runs, and the last hundred that ran
  haul jobs show 12                            how did it end?
  haul jobs limit 12 5M                        from now on 5 MiB per second
  haul jobs limit 12 '08:00,10M 19:00,off'     by a timetable
  haul jobs limit 12 off                       no limit

An interrupted job goes on when its command is run again. Only your own jobs on this machine can be changed.";

/// What runs and what ran; change the limit of what runs
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub(crate) struct JobsArgs {
    /// What to do; without it all are listed.
    #[command(subcommand)]
    pub(crate) action: Option<JobsAction>,
    /// One JSON object a line on standard output, for programs
    #[arg(long)]
    pub(crate) json: bool,
}

/// What can be done with a job.
#[derive(Debug, Subcommand)]
pub(crate) enum JobsAction {
    /// Print what is known of one job, and how it ended
    Show {
        /// Its number
        #[arg(value_parser = parse_job)]
        id: u64,
        /// One JSON object on standard output, for programs
        #[arg(long)]
        json: bool,
    },
    /// Give a running job another limit
    Limit {
        /// Its number
        #[arg(value_parser = parse_job)]
        id: u64,
        /// A rate, `off`, or a timetable, as --bwlimit takes them
        #[arg(required = true, num_args = 1.., value_name = "RATE")]
        rate: Vec<String>,
    },
}
