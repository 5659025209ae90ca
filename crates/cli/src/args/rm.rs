//! `haul rm`.

use std::ffi::OsString;

use clap::Args;

use super::StoreArgs;

const EXAMPLES: &str = "\
Examples:
  haul rm s3://backups/db1.xb              the object, and what `haul put` recorded beside it
  haul rm -rn s3://backups/2024/           what would be removed?
  haul rm --incomplete s3://backups/       uploads that haul began on this machine and did not end";

/// Remove objects, or uploads that were not completed
#[derive(Debug, Args)]
#[command(args_override_self = true, after_help = EXAMPLES)]
pub(crate) struct RmArgs {
    /// An object, or with -r or --incomplete the beginning of names: s3://BUCKET/KEY, gs://…, az://…
    #[arg(value_name = "URL", required = true)]
    pub(crate) places: Vec<OsString>,
    /// Every object whose name begins with KEY
    #[arg(short = 'r', long, conflicts_with = "incomplete")]
    pub(crate) recursive: bool,
    /// Say what would be removed, and remove nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Give up uploads that haul began on this machine and no process goes on with; others are listed and left
    #[arg(long)]
    pub(crate) incomplete: bool,
    /// With --incomplete: also those that were begun by others or elsewhere, those in use included
    #[arg(long, requires = "incomplete")]
    pub(crate) any: bool,
    /// The store.
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Say nothing but errors
    #[arg(short = 'q', long, help_heading = "What is shown")]
    pub(crate) quiet: bool,
}
