//! `haul pipe`.

use std::ffi::OsString;

use clap::{Arg, Args};

use super::{CompressArgs, GivenArgs, LinkArgs, OutputArgs};
use crate::values::Timetable;

const EXAMPLES: &str = "\
Examples:
  haul pipe db2 --into 'mbstream -x -C /var/lib/mysql' -- \\
    mariadb-backup --backup --stream=xbstream
  haul pipe --from db1 'pg_dump -Fc shop' --into 'pg_restore -d shop'
  haul pipe db2 --into 'zstd -d | mysql shop' -- 'mysqldump shop | zstd'

A quoted command is run by `bash -o pipefail -c`. If one program fails, haul
kills the other one: CMD never sees the end of a stream that is not complete.

A pipe cannot be resumed: if it fails, CMD has got a part of the stream, and
the command starts from the beginning. `haul put HOST:PATH` can be resumed.";

/// Send the output of a command here to a command on a host, or the other way round
#[derive(Debug, Args)]
#[command(args_override_self = true, after_help = EXAMPLES, mut_args(without_shares))]
pub(crate) struct PipeArgs {
    /// The host of the command that reads: USER@HOST or ssh://USER@HOST:PORT; with --from, the command there
    #[arg(value_name = "HOST")]
    pub(crate) first: Option<OsString>,
    /// The command that writes the stream: here, or with --from on that host
    #[arg(value_name = "CMD", last = true)]
    pub(crate) command: Vec<OsString>,
    /// The command that reads the stream: on HOST, or with --from here
    #[arg(long, value_name = "CMD", required = true)]
    pub(crate) into: OsString,
    /// The host of the command that writes the stream
    #[arg(long, value_name = "HOST")]
    pub(crate) from: Option<OsString>,
    /// Pass on an empty stream; otherwise it is an error
    #[arg(long)]
    pub(crate) allow_empty: bool,
    /// Limit the bandwidth to RATE, optionally by a schedule, as in `haul copy` (10M: 10 MiB per second)
    #[arg(long, value_name = "RATE", help_heading = "Limits")]
    pub(crate) bwlimit: Option<Timetable>,
    #[command(flatten)]
    pub(crate) given: GivenArgs,
    #[command(flatten)]
    pub(crate) compress: CompressArgs,
    #[command(flatten)]
    pub(crate) link: LinkArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Hides the options of shares, which come with those of hosts: a pipe leads to no share.
fn without_shares(arg: Arg) -> Arg {
    if arg.get_id().as_str().starts_with("smb_") { arg.hide(true) } else { arg }
}
