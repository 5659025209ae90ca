//! How much of the machines and the link a run may take.

use clap::Args;

use crate::settings::Timetable;

/// Options for limits.
#[derive(Clone, Debug, Args)]
pub(crate) struct LimitArgs {
    /// Move at most RATE bytes per second over all connections together, or by a timetable
    ///
    /// RATE is as in rsync: 500 and 500K are KiB per second, 10M and 10MiB are of 1024, 10MB is of 1000, 1.5M will
    /// do; also 100Mbit (of 1000 bits), and `off`. A timetable has entries HH:MM,RATE in local time, separated by
    /// spaces, each for every day or, as in Mon-08:00,10M, for one; each holds until the next one:
    /// --bwlimit '08:00,10M 19:00,off'. What is limited is what haul sends or receives over its connections, each
    /// way by itself; between two ends on this machine it is the content. `haul jobs limit ID RATE` changes it while
    /// it runs.
    #[arg(long, value_name = "RATE", help_heading = "Limits")]
    pub(crate) bwlimit: Option<Timetable>,
}
