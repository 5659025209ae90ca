//! `haul ls`.

use std::ffi::OsString;

use clap::Args;

use super::StoreArgs;

const EXAMPLES: &str = "\
Examples:
  haul ls s3://backups/            what is there, up to the next slash
  haul ls -r s3://backups/2026-    every object whose name begins so";

/// List objects: length, time and name
#[derive(Debug, Args)]
#[command(args_override_self = true, after_help = EXAMPLES)]
pub(crate) struct LsArgs {
    /// A bucket, or the beginning of names in one: s3://BUCKET/PREFIX, gs://…, az://…
    #[arg(value_name = "URL")]
    pub(crate) place: OsString,
    /// Everything below too
    #[arg(short = 'r', long)]
    pub(crate) recursive: bool,
    /// The store.
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// One JSON object a line, for programs
    #[arg(long, help_heading = "What is shown")]
    pub(crate) json: bool,
}
