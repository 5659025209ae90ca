//! `haul put`.

use std::ffi::OsString;

use clap::Args;

use super::{EncodeArgs, FifoArgs, ManifestArgs, ObjectArgs, OutputArgs, PagesArgs, ReachArgs};
use crate::values::{Timetable, number, parse_size};

const EXAMPLES: &str = "\
Examples:
  haul put s3://backups/db1.xb -- mariadb-backup --backup --stream=xbstream
  haul put --compress zstd s3://backups/db1.sql -- mysqldump --all-databases
  haul put --compress zstd --encrypt age1... s3://backups/pg.tar -- \\
    pg_basebackup -D - -Ft -X fetch
  haul put s3://backups/db1.sql.gz -- 'mysqldump --all-databases | gzip'
  tar c /srv | haul put s3://backups/srv.tar gs://elsewhere/srv.tar
  haul put db2:/backups/db1.xb -- mariadb-backup --backup --stream=xbstream
  haul put s3://backups/db1 --fifo-dir /tmp/fifo --fifo-streams 4 -- \\
    xtrabackup --backup --stream --fifo-streams=4 --fifo-dir=/tmp/fifo

One quoted argument after -- is run by `bash -o pipefail -c`. If the command
fails, nothing is created or replaced.

haul cannot see whether the writer of standard input failed: prefer --.";

/// Write stdin, or a command's output, to one or more files or objects
#[derive(Debug, Args)]
#[command(args_override_self = true, after_help = EXAMPLES)]
pub(crate) struct PutArgs {
    /// The files or objects: PATH, USER@HOST:PATH, sftp://HOST/PATH, s3://BUCKET/KEY, gs://BUCKET/KEY,
    /// az://CONTAINER/KEY
    #[arg(value_name = "DST", required = true)]
    pub(crate) destinations: Vec<OsString>,
    /// The command whose output is written [default: standard input]
    #[arg(value_name = "CMD", last = true)]
    pub(crate) command: Vec<OsString>,
    /// Print the number of requests that the upload needs, and upload nothing; needs the length of the stream
    #[arg(short = 'n', long, conflicts_with = "manifest")]
    pub(crate) dry_run: bool,
    /// With -n: the length of the stream [default: the size of standard input, if that is a file]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "dry_run")]
    pub(crate) length: Option<u64>,
    #[command(flatten)]
    pub(crate) fifo: FifoArgs,
    /// Create a file or an object even if the stream is empty
    #[arg(long, help_heading = "Writing")]
    pub(crate) allow_empty: bool,
    /// Fail if the file or the object exists
    #[arg(long, help_heading = "Writing")]
    pub(crate) no_clobber: bool,
    /// Resume an interrupted put of the same stream: skip the parts that are already stored
    ///
    /// Without it, a put that is interrupted removes the parts that it has stored; with it, they stay for the next run.
    /// A put that was killed, or whose store or host could not be reached any more, leaves them in any case.
    #[arg(long, help_heading = "Writing")]
    pub(crate) resume: bool,
    /// Maximum number of parts per object [default: 10000, Azure 50000]
    #[arg(long, value_name = "N",
          value_parser = |text: &str| number::<u32>(text, "parts", 1, 1_000_000), help_heading = "Object stores")]
    pub(crate) max_parts: Option<u32>,
    /// Limit the bandwidth to RATE, optionally by a schedule, as in `haul copy` (10M: 10 MiB per second)
    #[arg(long, value_name = "RATE", help_heading = "Limits")]
    pub(crate) bwlimit: Option<Timetable>,
    #[command(flatten)]
    pub(crate) encode: EncodeArgs,
    #[command(flatten)]
    pub(crate) pages: PagesArgs,
    #[command(flatten)]
    pub(crate) object: ObjectArgs,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) manifest: ManifestArgs,
}
