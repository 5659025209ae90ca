//! Limits of bandwidth and of file-system operations.

use std::num::NonZeroU64;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;

use crate::values::{Timetable, number, parse_stop_at, parse_time};

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
    /// Limit the total bandwidth to RATE bytes per second, optionally by a schedule
    ///
    /// RATE is as in rsync: 500 = 500K = 500 KiB per second; 10M = 10MiB; 10MB = 10,000,000 bytes; fractions are
    /// allowed (1.5M); also 100Mbit (1 Mbit = 1,000,000 bits) and `off`. A schedule has entries HH:MM,RATE in local
    /// time, separated by spaces; a weekday may precede the time (Mon-08:00,10M). Each entry applies until the next
    /// one: --bwlimit '08:00,10M 19:00,off'. The limit applies to the traffic of all connections together, separately
    /// in each direction; if both locations are local, to the copied content. `haul jobs limit ID RATE` changes it
    /// during the run.
    #[arg(long, value_name = "RATE", help_heading = "Limits")]
    pub(crate) bwlimit: Option<Timetable>,
    /// Limit file-system operations to N per second, at SRC and at DST
    ///
    /// For a file server that others need too, or one that charges per operation. The limit applies to SRC and DST
    /// separately. Each of these counts as one operation: stat, a block of a directory listing, open, create, read (per
    /// 256 KiB), write (per contiguous run), fsync, setting owner, mode, times or an attribute, reading attributes or a
    /// symbolic link, link, rename and unlink. Close does not count. A file server may receive more requests than that,
    /// for example to resolve paths.
    #[arg(long, value_name = "N", value_parser = parse_iops, help_heading = "Limits")]
    pub(crate) iops: Option<NonZeroU64>,
    /// Yield to other work on both hosts
    ///
    /// On both hosts haul runs at the lowest CPU priority (nice 19), from which the kernel derives the I/O priority.
    /// Once a second haul reads the pressure-stall information (PSI) of the other control groups on both hosts. If they
    /// were stalled on CPU or I/O for more than 10 % of the time, haul halves its rate, down to 1 MiB per second; below
    /// 5 % it raises the rate by 5 %. If the kernel reports PSI only for the whole host, the figure includes haul
    /// itself: then only I/O counts, with thresholds of 80 % and 60 %.
    #[arg(long, help_heading = "Limits")]
    pub(crate) nice: bool,
    /// Stop after TIME (90s, 30m, 6h); the same command resumes
    ///
    /// haul then stops as after Ctrl-C: it completes the blocks in flight and exits with 130, at most 5 seconds later.
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "Limits")]
    pub(crate) max_duration: Option<Duration>,
    /// Stop at TIME: 05:30 (the next one) or 2026-11-24T05:30, in local time; the same command resumes
    ///
    /// As --max-duration. If both are given, the earlier time counts.
    #[arg(long, value_name = "TIME", value_parser = parse_stop_at, help_heading = "Limits")]
    pub(crate) stop_at: Option<Timestamp>,
}
