//! Options that select objects by size and age.

use clap::Args;
use haul_core::Timestamp;

use crate::values::{parse_age, parse_size};

/// Options that select objects by size and age.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SelectArgs {
    /// Only objects and files of at least SIZE
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Filters")]
    pub(crate) min_size: Option<u64>,
    /// Only objects and files of at most SIZE
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Filters")]
    pub(crate) max_size: Option<u64>,
    /// Only files modified (objects: stored) at most AGE ago: 90s, 36h, 7d, 2w, 6M, 1y, or since a date
    #[arg(long, value_name = "AGE", value_parser = parse_age, help_heading = "Filters")]
    pub(crate) max_age: Option<Timestamp>,
    /// Only files modified (objects: stored) at least AGE ago, or before a date
    #[arg(long, value_name = "AGE", value_parser = parse_age, help_heading = "Filters")]
    pub(crate) min_age: Option<Timestamp>,
}
