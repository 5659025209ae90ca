//! `haul index`.

use std::ffi::OsString;

use clap::Args;

use super::ReachArgs;

const EXAMPLES: &str = "\
Examples:
  haul index s3://backups/db1.xb
  haul get s3://backups/db1.xb --unpack /restore --member 'shop/orders*'

The index is written beside the stream, as SRC.haul-index. `haul put` writes one
itself.";

/// Read a stream of xbstream or tar once, and write an index of its members beside it
#[derive(Debug, Args)]
#[command(args_override_self = true, after_help = EXAMPLES)]
pub(crate) struct IndexStreamArgs {
    /// The file or object: PATH, USER@HOST:PATH, sftp://HOST/PATH, s3://BUCKET/KEY, gs://BUCKET/KEY,
    /// az://CONTAINER/KEY
    #[arg(value_name = "SRC")]
    pub(crate) source: OsString,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}
