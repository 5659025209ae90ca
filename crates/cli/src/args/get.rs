//! `haul get`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::{DecodeArgs, MemoryArgs, OutputArgs, StoreArgs};

const EXAMPLES: &str = "\
Examples:
  haul get s3://backups/db1.xb | mbstream -x -C /var/lib/mysql
  haul get s3://backups/db1.xb db1.xb      interrupted? again: it goes on where it was
  haul get s3://backups/db1 --fifo-dir /tmp/fifo & \\
    xbstream -x -C /restore --fifo-streams=4 --fifo-dir=/tmp/fifo
  haul get --identity key.txt s3://backups/pg.tar | tar x -C /var/lib/postgresql/data

What was stored packed or encrypted by `haul put` is unpacked and decrypted.

The content is verified against what `haul put` recorded, or else against what the store keeps, before its
last bytes are handed over: exit code 3 if it differs.";

/// One object to standard output or into a file, in order, fetched in parallel
#[derive(Debug, Args)]
#[command(args_override_self = true, after_help = EXAMPLES)]
pub(crate) struct GetArgs {
    /// The object: s3://BUCKET/KEY, gs://BUCKET/KEY, az://CONTAINER/KEY
    #[arg(value_name = "SRC")]
    pub(crate) source: OsString,
    /// The file that it becomes, or the folder that it goes into [default: standard output]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Several streams of one backup: each object below SRC goes into a named pipe of its name, which is made in DIR
    #[arg(long, value_name = "DIR", conflicts_with = "file", help_heading = "Several streams")]
    pub(crate) fifo_dir: Option<PathBuf>,
    /// How it is stored.
    #[command(flatten)]
    pub(crate) decode: DecodeArgs,
    /// The store.
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The memory.
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
    /// What is shown.
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
