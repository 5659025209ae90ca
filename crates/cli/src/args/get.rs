//! `haul get`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;

use super::{CompressArgs, DecodeArgs, ManifestArgs, OutputArgs, PagesArgs, ReachArgs};
use crate::values::Timetable;

const EXAMPLES: &str = "\
Examples:
  haul get s3://backups/db1.xb | mbstream -x -C /var/lib/mysql
  haul get db2:/backups/db1.xb | mbstream -x -C /var/lib/mysql
  haul get s3://backups/db1.xb db1.xb     # rerun to resume
  haul get s3://backups/db1 --fifo-dir /tmp/fifo & \\
    xbstream -x -C /restore --fifo-streams=4 --fifo-dir=/tmp/fifo
  haul get --identity key.txt s3://backups/pg.tar | tar x -C /restore
  haul get s3://backups/db1.xb --unpack /restore             # in parallel
  haul get s3://backups/db1.xb --unpack /restore --member 'shop/orders*'
  zstd -dc db1.xb.zst | haul get - --unpack /restore

Objects that `haul put` compressed or encrypted are decompressed and decrypted.

Before it writes the last bytes, haul verifies the content of an object against
the digest that `haul put` recorded, or else the checksum of the store. Each
slice of a file is verified on arrival. Exit code 3: the content differs.";

/// Read a file or an object in parallel, to stdout (in order) or a file
#[derive(Debug, Args)]
#[command(args_override_self = true, after_help = EXAMPLES)]
pub(crate) struct GetArgs {
    /// The file or object: PATH, USER@HOST:PATH, sftp://HOST/PATH, s3://BUCKET/KEY, gs://BUCKET/KEY,
    /// az://CONTAINER/KEY; or the name of a backup that xbcloud stored; - is standard input, with --unpack
    #[arg(value_name = "SRC")]
    pub(crate) source: OsString,
    /// The file to write, or the directory to write it into; - is standard output [default: -]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Write each object below SRC to a named pipe that haul creates in DIR
    #[arg(long, value_name = "DIR", conflicts_with = "file", help_heading = "Multiple streams")]
    pub(crate) fifo_dir: Option<PathBuf>,
    /// Unpack the stream, xbstream or tar, into DIR: its files in parallel, in any order; rerun to resume
    ///
    /// DIR is created, or has to be empty. Each file is verified, and renamed into place when it is complete. `haul put`
    /// has written an index of the stream; without one, the stream is read twice (see `haul index`). A stream from
    /// standard input is unpacked as it passes, and cannot be resumed.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "fifo_dir", "raw", "manifest"],
          help_heading = "Members")]
    pub(crate) unpack: Option<PathBuf>,
    /// Only members that match, and all members below them: 'shop/orders*'; may be repeated with --unpack
    #[arg(long, value_name = "PATTERN", conflicts_with_all = ["fifo_dir", "raw", "manifest"],
          help_heading = "Members")]
    pub(crate) member: Vec<OsString>,
    /// Unpack into a DIR that is not empty: files of the same names are replaced, and all others stay
    #[arg(long, requires = "unpack", help_heading = "Members")]
    pub(crate) merge: bool,
    /// Limit the bandwidth to RATE, optionally by a schedule, as in `haul copy` (10M: 10 MiB per second)
    #[arg(long, value_name = "RATE", help_heading = "Limits")]
    pub(crate) bwlimit: Option<Timetable>,
    #[command(flatten)]
    pub(crate) decode: DecodeArgs,
    #[command(flatten)]
    pub(crate) pages: PagesArgs,
    #[command(flatten)]
    pub(crate) compress: CompressArgs,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) manifest: ManifestArgs,
}

impl GetArgs {
    /// The file to write, or the directory to write it into; standard output is `None`.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref().filter(|file| !["-", "/dev/stdout"].iter().any(|name| file.as_os_str() == *name))
    }
}
