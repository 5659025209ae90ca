//! `haul copy` and `haul sync`.

use std::ffi::OsString;

use clap::Args;

use super::TransferArgs;
use crate::settings::{MOST_ENTRIES, number};

const COPY_EXAMPLES: &str = "\
Examples:
  haul copy db1:/var/lib/mysql/ /var/lib/mysql/
  haul copy --exclude '*.tmp' --exclude /cache/ project nas:backup/
  haul copy -e 'ssh -p 2222' --streams 16 /data/ me@far.example:/data/
  find . -newer stamp -print0 | haul copy -0 --files-from - . host:/srv/in/

Interrupted or failed? Run the same command again: it goes on where it was.";

const SYNC_EXAMPLES: &str = "\
Examples:
  haul sync -n /srv/share/ nas:/srv/share/         what would change?
  haul sync --max-delete 100 /srv/share/ nas:/srv/share/

What --exclude leaves out is not removed. Nothing is removed when the source could not be read in full.";

/// Make DST hold SRC: skip what is there already, never delete
#[derive(Debug, Args)]
#[command(args_override_self = true, override_usage = "haul copy [OPTIONS] SRC… DST", after_help = COPY_EXAMPLES)]
pub(crate) struct CopyArgs {
    /// What to copy, and last where to; `SRC/` is what is in the folder, `SRC` the folder itself
    // One list, as only that lets options stand between the words.
    #[arg(value_name = "END", required = true, num_args = 1..)]
    pub(crate) ends: Vec<OsString>,
    /// How.
    #[command(flatten)]
    pub(crate) transfer: TransferArgs,
    /// Copy only the paths that FILE lists, and what is below them; `-` is standard input
    ///
    /// The paths are below SRC, one a line. Blank lines and lines that begin with `#` or `;` are skipped, unless
    /// with -0. They keep their place: `a/b` arrives as DST/a/b, whether SRC ends in a slash or not.
    #[arg(long, value_name = "FILE", help_heading = "What is looked at")]
    pub(crate) files_from: Option<OsString>,
}

/// Mirror SRC to DST: copy, then delete what SRC lacks
#[derive(Debug, Args)]
#[command(args_override_self = true, override_usage = "haul sync [OPTIONS] SRC DST", after_help = SYNC_EXAMPLES)]
pub(crate) struct SyncArgs {
    /// The source, then the destination; SRC/ copies the directory's contents, SRC the directory itself
    #[arg(value_name = "END", required = true, num_args = 1..)]
    pub(crate) ends: Vec<OsString>,
    /// How.
    #[command(flatten)]
    pub(crate) transfer: TransferArgs,
    /// Delete nothing if more than N entries (files, directories, links) would be deleted
    ///
    /// haul then copies everything, deletes nothing and exits with 1. If at most N entries would be deleted, an empty
    /// SRC and the deletion of more than half of DST are allowed too (see --force-delete).
    #[arg(long, value_name = "N", value_parser = |text: &str| number::<u64>(text, "entries", 0, MOST_ENTRIES),
          help_heading = "What is removed")]
    pub(crate) max_delete: Option<u64>,
    /// Delete even if SRC is empty or was unmounted since the last run, or if more than half of DST would be deleted
    ///
    /// By default haul takes these for mistakes, deletes nothing and exits with 2: SRC is empty and DST is not; DST had
    /// more than 100 entries and more than half of them would be deleted; SRC, on this machine, was on a mounted file
    /// system in the last run and is not now. --max-delete N also allows the first two, but not the third.
    #[arg(long, help_heading = "What is removed")]
    pub(crate) force_delete: bool,
    /// Delete even if parts of SRC could not be read
    #[arg(long, help_heading = "What is removed")]
    pub(crate) ignore_errors: bool,
    /// Delete what SRC lacks, after the copy: the default, accepted with all of rsync's --delete-… words for the moment
    #[arg(long, aliases = ["del", "delete-before", "delete-during", "delete-delay", "delete-after"],
          help_heading = "What is removed")]
    pub(crate) delete: bool,
}
