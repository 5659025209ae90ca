//! `haul stat`.

use std::ffi::OsString;

use clap::Args;

use super::{GivenArgs, HostArgs, StoreArgs};

const EXAMPLES: &str = "\
Examples:
  haul stat s3://backups/db1.xb
  haul stat db1:/var/lib/mysql/ibdata1
  haul stat --json 's3://backups/2026-*/db1.xb'";

/// Show all that is known of single files, directories and objects
#[derive(Debug, Args)]
#[command(args_override_self = true, after_help = EXAMPLES)]
pub(crate) struct StatArgs {
    /// A file, a directory, host:PATH, an object, a prefix or a bucket; wildcards as for `haul copy`
    #[arg(value_name = "LOCATION", required = true)]
    pub(crate) places: Vec<OsString>,
    #[command(flatten)]
    pub(crate) given: GivenArgs,
    #[command(flatten)]
    pub(crate) host: HostArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Write JSON Lines to standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}
