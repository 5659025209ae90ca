//! `haul presign`.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

use super::{FamilyArgs, GivenArgs, StoreArgs};
use crate::values::parse_expiry;

const EXAMPLES: &str = "\
Examples:
  haul presign s3://backups/db1.xb
  haul presign --expires 7d s3://backups/db1.xb
  curl -T new.xb \"$(haul presign --method put s3://backups/new.xb)\"

The URL is a secret: whoever has it can use it until it expires. haul signs it
with the secret key of s3://, the key of the storage account of az://, or the
private key of a service account for gs://.";

/// The request that a URL allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MethodArg {
    /// Read the object
    Get,
    /// Write the object
    Put,
}

/// Print a URL with which anyone can read or write one object for some time
#[derive(Debug, Args)]
#[command(args_override_self = true, after_help = EXAMPLES)]
pub(crate) struct PresignArgs {
    /// The object: s3://BUCKET/KEY, gs://BUCKET/KEY, az://CONTAINER/KEY
    #[arg(value_name = "URL")]
    pub(crate) place: OsString,
    /// How long the URL works, at most 7d
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_expiry)]
    pub(crate) expires: u32,
    /// The request that the URL allows: get or put
    #[arg(
        long,
        value_name = "METHOD",
        default_value = "get",
        ignore_case = true,
        hide_possible_values = true
    )]
    pub(crate) method: MethodArg,
    #[command(flatten)]
    pub(crate) given: GivenArgs,
    #[command(flatten)]
    pub(crate) family: FamilyArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
