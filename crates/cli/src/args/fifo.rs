//! Several streams of one backup.

use std::path::PathBuf;

use clap::Args;

use crate::settings::number;

/// Where the streams of one backup are.
#[derive(Clone, Debug, Args)]
pub(crate) struct FifoArgs {
    /// Several streams of one backup: each named pipe in this folder is an object below DST, all of them or none
    #[arg(long, value_name = "DIR", help_heading = "Several streams")]
    pub(crate) fifo_dir: Option<PathBuf>,
    /// How many pipes there are, as the program that makes them was told [default: those that are there already]
    #[arg(long, value_name = "N", requires = "fifo_dir", value_parser = |text: &str| number::<u16>(text, "pipes", 1, 256),
          help_heading = "Several streams")]
    pub(crate) fifo_streams: Option<u16>,
}
