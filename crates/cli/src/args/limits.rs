//! How much of the machines and the link a run may take.

use std::num::NonZeroU64;

use clap::Args;

use crate::settings::{Timetable, number};

/// More operations per second than any file system does.
const MOST: i64 = 1_000_000_000;

/// Reads a value of `--iops`.
fn parse_iops(text: &str) -> Result<NonZeroU64, String> {
    number::<u64>(text, "file-system operations per second", 1, MOST)
        .map(|rate| NonZeroU64::new(rate).unwrap_or(NonZeroU64::MIN))
}

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
    /// Make at most N file-system operations per second at each end
    ///
    /// For a file server that others need too, or one that charges by the operation. At each end by itself, what is
    /// asked of its file system counts: each look at a name, each part of a listing, opening, making, reading (each
    /// 256 KiB), writing (each run of data), syncing, setting owner, mode, times or an attribute, reading attributes or
    /// a link, linking, renaming and removing. Closing counts nothing. A server may be asked more often than that: for
    /// the folders on the way, say.
    #[arg(long, value_name = "N", value_parser = parse_iops, help_heading = "Limits")]
    pub(crate) iops: Option<NonZeroU64>,
    /// Give way to whatever else the machines at both ends do
    ///
    /// At both ends haul has the lowest priority for the processor (nice 19), from which the kernel also takes that
    /// for input and output. And once a second haul looks at both ends how long others waited for either, as the
    /// kernel tells (PSI, of the control groups beside haul's own). If that was more than a tenth of the time, the
    /// rate is halved, down to 1 MiB per second; if it was less than a twentieth, it rises again by a twentieth of
    /// what it was. Where the kernel tells only of the whole machine, haul's own waiting is in the figure: then only
    /// input and output count, at 80 % and 60 %.
    #[arg(long, help_heading = "Limits")]
    pub(crate) nice: bool,
}
