//! Options for backups of several streams.

use std::path::PathBuf;

use clap::Args;

use crate::values::number;

/// The named pipes that the streams of a backup come from.
#[derive(Clone, Debug, Args)]
pub(crate) struct FifoArgs {
    /// Upload each named pipe in DIR as an object below DST, all or none
    #[arg(long, value_name = "DIR", help_heading = "Multiple streams")]
    pub(crate) fifo_dir: Option<PathBuf>,
    /// Number of pipes, the same as given to the program that creates them [default: those in DIR]
    #[arg(long, value_name = "N", requires = "fifo_dir", value_parser = |text: &str| number::<u16>(text, "pipes", 1, 256),
          help_heading = "Multiple streams")]
    pub(crate) fifo_streams: Option<u16>,
}
