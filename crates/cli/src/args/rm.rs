//! `haul rm`.

use std::ffi::OsString;

use clap::Args;

use super::{FamilyArgs, GivenArgs, SelectArgs, ShareArgs, StoreArgs};

const EXAMPLES: &str = "\
Examples:
  haul rm s3://backups/db1.xb           # the object and its sidecar object
  haul rm -rn s3://backups/2024/        # list the objects, remove none
  haul rm -rn --min-age 30d s3://backups/daily/
  haul rm -r smb://nas/projects/old
  haul rm --incomplete s3://backups/    # abort interrupted uploads";

/// Remove objects, files and directories of shares, or abort incomplete uploads
#[derive(Debug, Args)]
#[command(args_override_self = true, after_help = EXAMPLES)]
pub(crate) struct RmArgs {
    /// An object, or with -r or --incomplete a prefix: s3://BUCKET/KEY, gs://..., az://...; on an SMB share
    /// (smb://HOST/SHARE/PATH) a file, or with -r a directory
    #[arg(value_name = "URL", required = true)]
    pub(crate) places: Vec<OsString>,
    /// Remove all objects below KEY and KEY itself, or a directory of a share with all that is in it
    ///
    /// s3://b/data removes the objects data and data/..., and not database: 's3://b/data*' removes that too.
    /// With sizes or ages, only the files that they select are removed from a directory.
    #[arg(short = 'r', long, conflicts_with = "incomplete")]
    pub(crate) recursive: bool,
    /// List the entries that rm would remove, remove nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Abort incomplete uploads that haul started on this host and that no process continues; list the others
    #[arg(long)]
    pub(crate) incomplete: bool,
    /// With --incomplete: abort the uploads of others and of other hosts too, even those in progress
    #[arg(long, requires = "incomplete")]
    pub(crate) any: bool,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    #[command(flatten)]
    pub(crate) given: GivenArgs,
    #[command(flatten)]
    pub(crate) family: FamilyArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) share: ShareArgs,
    /// Print errors only
    #[arg(short = 'q', long, help_heading = "Output")]
    pub(crate) quiet: bool,
}
