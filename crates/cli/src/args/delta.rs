//! Big files that changed a little.

use clap::{Args, ValueEnum};

/// When a file that is there is compared by pages with what is to replace it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeltaMode {
    /// Where it is of like size and that saves sending or writing
    #[default]
    Auto,
    /// Wherever one is
    On,
    /// Never: send what changed as a whole
    Off,
}

/// Options for files that are there in an older state.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct DeltaArgs {
    /// Send only what differs of a file of more than 4 MiB that DST has in another state: auto, on or off
    ///
    /// Both ends compare pages of 16 KiB at the same places. So it finds what was changed where it is, or appended, as
    /// in databases, images of machines and logs; not what was moved. `auto` does it where the sizes are alike (none is
    /// more than four times the other) and bytes go to another machine, or the file system of DST shares blocks (btrfs,
    /// xfs), or with --inplace; and not for long where nothing is the same.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, help_heading = "What is sent")]
    pub(crate) delta: DeltaMode,
    /// Change files of more than 4 MiB at DST where they are, instead of replacing them
    ///
    /// For those who must: a reader sees a mix of old and new until it is done, and so does everybody if the run is
    /// interrupted, until it is run again. In return there need not be room for a second copy, and hard links stay,
    /// unless the file has more of them at DST than at SRC: then it is replaced.
    #[arg(long, help_heading = "What is sent")]
    pub(crate) inplace: bool,
}
