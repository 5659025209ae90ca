//! Options for files that another program has open.

use std::time::Duration;

use clap::Args;
use haul_engine::LockedRetries;

use crate::values::{number, parse_time};

fn parse_retries(text: &str) -> Result<u32, String> {
    number::<u32>(text, "retries", 0, 1_000_000)
}

/// Options for files that another program has open.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct LockedArgs {
    /// Try files that another program has open N times more, when all others are done
    ///
    /// This is for sharing violations on SMB shares, and for EBUSY and ETXTBSY of mounted file systems. Files that stay open
    /// fail and are named, in --json with the kind `locked`. Lost connections and temporary errors are retried in any case.
    #[arg(long, value_name = "N", default_value = "3", value_parser = parse_retries, help_heading = "Safety")]
    pub(crate) retries: u32,
    /// Wait TIME before each of these retries (2s, 5m)
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_time, help_heading = "Safety")]
    pub(crate) retry_wait: Duration,
}

impl LockedArgs {
    /// The retries.
    pub(crate) fn retries(self) -> LockedRetries {
        LockedRetries { times: self.retries, wait: self.retry_wait }
    }
}
