//! `haul put`.

use std::ffi::OsString;

use clap::Args;

use super::{EncodeArgs, FifoArgs, MemoryArgs, ObjectArgs, OutputArgs, StoreArgs};
use crate::settings::{number, parse_size};

const EXAMPLES: &str = "\
Examples:
  haul put s3://backups/db1.xb -- mariadb-backup --backup --stream=xbstream
  haul put --compress zstd s3://backups/db1.sql -- mysqldump --all-databases
  haul put --compress zstd --encrypt age1… s3://backups/pg.tar -- pg_basebackup -D - -Ft -X fetch
  haul put s3://backups/db1.sql.gz -- 'mysqldump --all-databases | gzip'
  tar c /srv | haul put s3://backups/srv.tar gs://elsewhere/srv.tar
  haul put s3://backups/db1 --fifo-dir /tmp/fifo --fifo-streams 4 -- \\
    xtrabackup --backup --stream --fifo-streams=4 --fifo-dir=/tmp/fifo

The words after -- are a command; a single word with a blank in it is a command line for bash with
pipefail: if one of its commands fails, it fails. If it fails, no object is made and none is replaced.

Of standard input haul sees only that it ends, not whether its writer did well: prefer --.";

/// A stream into one object, or into several from one read
#[derive(Debug, Args)]
#[command(args_override_self = true, after_help = EXAMPLES)]
pub(crate) struct PutArgs {
    /// Where it goes: s3://BUCKET/KEY, gs://BUCKET/KEY, az://CONTAINER/KEY
    #[arg(value_name = "DST", required = true)]
    pub(crate) destinations: Vec<OsString>,
    /// The command whose output is the stream [default: standard input]
    #[arg(value_name = "CMD", last = true)]
    pub(crate) command: Vec<OsString>,
    /// Say how many requests it will take, and do nothing; the length of a stream must be known for that
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// With -n: the length of the stream [default: that of the file that is standard input]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "dry_run")]
    pub(crate) length: Option<u64>,
    /// Several streams.
    #[command(flatten)]
    pub(crate) fifo: FifoArgs,
    /// Let an empty stream make an object
    #[arg(long, help_heading = "What is written")]
    pub(crate) allow_empty: bool,
    /// Replace no object that is there
    #[arg(long, help_heading = "What is written")]
    pub(crate) no_clobber: bool,
    /// Go on from what an earlier run of the same stream left there: parts with the same content are not sent again
    #[arg(long, help_heading = "What is written")]
    pub(crate) resume: bool,
    /// Parts of one object that the store takes [default: 10000, at Azure 50000]
    #[arg(long, value_name = "N",
          value_parser = |text: &str| number::<u32>(text, "parts", 1, 1_000_000), help_heading = "Object stores")]
    pub(crate) max_parts: Option<u32>,
    /// How it is stored.
    #[command(flatten)]
    pub(crate) encode: EncodeArgs,
    /// What the object is written with.
    #[command(flatten)]
    pub(crate) object: ObjectArgs,
    /// The stores.
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The memory.
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
    /// What is shown.
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
