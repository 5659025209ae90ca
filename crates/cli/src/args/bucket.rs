//! `haul mb` and `haul rb`.

use std::ffi::OsString;

use clap::Args;

use super::{FamilyArgs, GivenArgs, StoreArgs};

const MB_EXAMPLES: &str = "\
Examples:
  haul mb s3://backups
  haul mb --region eu-central-1 s3://backups-eu
  GOOGLE_CLOUD_PROJECT=accounts haul mb --region EU gs://backups";

/// Make buckets, at Azure containers
#[derive(Debug, Args)]
#[command(args_override_self = true, after_help = MB_EXAMPLES)]
pub(crate) struct MbArgs {
    /// The bucket: s3://BUCKET, gs://BUCKET, az://CONTAINER
    #[arg(value_name = "URL", required = true)]
    pub(crate) places: Vec<OsString>,
    /// A bucket that is there already will do, if it can be listed
    #[arg(short = 'p', long)]
    pub(crate) ignore_existing: bool,
    #[command(flatten)]
    pub(crate) given: GivenArgs,
    #[command(flatten)]
    pub(crate) family: FamilyArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print errors only
    #[arg(short = 'q', long, help_heading = "Output")]
    pub(crate) quiet: bool,
}

const RB_EXAMPLES: &str = "\
Examples:
  haul rb s3://empty
  haul rb -n --force s3://scratch    # list the objects, remove none";

/// Remove empty buckets, at Azure containers
#[derive(Debug, Args)]
#[command(args_override_self = true, after_help = RB_EXAMPLES)]
pub(crate) struct RbArgs {
    /// The bucket: s3://BUCKET, gs://BUCKET, az://CONTAINER
    #[arg(value_name = "URL", required = true)]
    pub(crate) places: Vec<OsString>,
    /// First remove all objects and abort all uploads in the bucket
    #[arg(long)]
    pub(crate) force: bool,
    /// List the objects that rb would remove, remove nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) given: GivenArgs,
    #[command(flatten)]
    pub(crate) family: FamilyArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print errors only
    #[arg(short = 'q', long, help_heading = "Output")]
    pub(crate) quiet: bool,
}
