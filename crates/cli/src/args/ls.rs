//! `haul ls`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::{GivenArgs, HostArgs, SelectArgs, StoreArgs};

const EXAMPLES: &str = "\
Examples:
  haul ls db1:/var/backups/        # one directory
  haul ls s3://                    # the buckets that the credentials may see
  haul ls s3://backups/            # one level, up to the next slash
  haul ls -r s3://backups/2026-    # all objects with this prefix
  haul ls 's3://backups/*/db1.xb'  # all objects that match
  haul ls -r --min-age 30d --summarize s3://backups/
  haul du s3://backups/            # their number and size only
  haul ls s3://backups/db1.xb --members";

/// List buckets, objects or a directory: size, time (UTC) and name
#[derive(Debug, Args)]
#[command(args_override_self = true, after_help = EXAMPLES)]
pub(crate) struct LsArgs {
    /// A bucket or a prefix (s3://BUCKET/PREFIX, gs://..., az://...), or a directory or file, also host:PATH; s3://
    /// alone lists the buckets
    #[arg(value_name = "LOCATION", required = true)]
    pub(crate) places: Vec<OsString>,
    /// List all that is below, not only one level
    #[arg(short = 'r', long)]
    pub(crate) recursive: bool,
    /// List the members of a stream of xbstream or tar: size and name
    #[arg(long, conflicts_with_all = ["recursive", "summarize"])]
    pub(crate) members: bool,
    /// With --members: file with the private key of an encrypted stream [default: $AGE_IDENTITY]
    #[arg(long, value_name = "FILE", requires = "members")]
    pub(crate) identity: Vec<PathBuf>,
    /// Print the number and the total size of the listed objects or files at the end
    #[arg(long)]
    pub(crate) summarize: bool,
    /// Print the totals only, as `haul du` does.
    #[arg(skip)]
    pub(crate) totals_only: bool,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
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
