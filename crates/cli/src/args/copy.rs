//! `haul copy` and `haul sync`.

use std::ffi::OsString;

use clap::Args;

use super::{ListArgs, TransferArgs};
use crate::values::{MOST_ENTRIES, number};

const COPY_EXAMPLES: &str = "\
Examples:
  haul copy db1:/var/lib/mysql/ /var/lib/mysql/
  haul copy --exclude '*.tmp' --exclude /cache/ project nas:backup/
  haul copy -e 'ssh -p 2222' --streams 16 /data/ me@far.example:/data/
  haul copy --all-destinations /srv/db/ db2:/srv/db/ s3://bucket/db/
  haul mv /data/done/ nas:/archive/    # copy, verify, remove the source files
  find . -newer stamp -print0 | haul copy -0 --files-from - . host:/srv/in/

After an interruption or a failure, run the same command again to resume.";

const SYNC_EXAMPLES: &str = "\
Examples:
  haul sync -n /srv/share/ nas:/srv/share/    # list the changes only
  haul sync --max-delete 100 /srv/share/ nas:/srv/share/

Files that --exclude matches are not deleted, unless --delete-excluded is given.
If parts of SRC cannot be read, haul deletes nothing.";

/// Copy SRC to DST; skip up-to-date files, never delete
#[derive(Debug, Args)]
#[command(args_override_self = true, override_usage = "haul copy [OPTIONS] SRC... DST", after_help = COPY_EXAMPLES)]
pub(crate) struct CopyArgs {
    /// Sources, then the destination; SRC/ copies the directory's contents, SRC the directory itself
    // One list: only then can options stand between the locations.
    #[arg(value_name = "LOCATION", required = true, num_args = 1..)]
    pub(crate) ends: Vec<OsString>,
    #[command(flatten)]
    pub(crate) transfer: TransferArgs,
    #[command(flatten)]
    pub(crate) list: ListArgs,
    /// Copy SRC to each of the following locations: `haul copy --all-destinations SRC DST1 DST2...`
    ///
    /// haul reads and hashes SRC once, and each destination gets it at the same time, at the rate of the slowest one. If
    /// one fails or is full, the others go on; haul names it, and the exit code is not 0. The same command run again
    /// sends each destination only the entries that it lacks.
    #[arg(long)]
    pub(crate) all_destinations: bool,
    /// Remove each file at SRC once DST has it, synced and verified (`haul mv` does the same)
    ///
    /// haul removes files, links and special files after the whole copy is synced at DST; directories stay, as with
    /// rsync. A file that DST had already is removed only after its content was compared: this option implies
    /// --checksum. A file that failed, was skipped by an option or changed since it was copied stays; the last is an
    /// error. After an interruption run the same command again. With -n, haul lists the files that it would remove.
    #[arg(long, help_heading = "Deletion")]
    pub(crate) remove_source_files: bool,
}

/// Mirror SRC to DST: copy, then delete the entries that SRC lacks
#[derive(Debug, Args)]
#[command(args_override_self = true, override_usage = "haul sync [OPTIONS] SRC DST", after_help = SYNC_EXAMPLES)]
pub(crate) struct SyncArgs {
    /// The source, then the destination; SRC/ copies the directory's contents, SRC the directory itself
    #[arg(value_name = "LOCATION", required = true, num_args = 1..)]
    pub(crate) ends: Vec<OsString>,
    #[command(flatten)]
    pub(crate) transfer: TransferArgs,
    #[command(flatten)]
    pub(crate) list: ListArgs,
    /// Delete nothing if more than N entries (files, directories, links) would be deleted
    ///
    /// With more than N, haul copies everything, deletes nothing and exits with 1. With at most N, an empty SRC and the
    /// deletion of more than half of DST are allowed too (see --force-delete).
    #[arg(long, value_name = "N", value_parser = |text: &str| number::<u64>(text, "entries", 0, MOST_ENTRIES),
          help_heading = "Deletion")]
    pub(crate) max_delete: Option<u64>,
    /// Delete even if SRC is empty or was unmounted since the last run, or if more than half of DST would be deleted
    ///
    /// By default haul deletes nothing and exits with 2 in these cases: SRC is empty and DST is not; DST has more than
    /// 100 entries and more than half of them would be deleted; a local SRC was on a mounted file system in the last
    /// run and is not now. --max-delete N allows the first two cases, but not the third.
    #[arg(long, help_heading = "Deletion")]
    pub(crate) force_delete: bool,
    /// Delete even if parts of SRC could not be read
    #[arg(long, help_heading = "Deletion")]
    pub(crate) ignore_errors: bool,
    /// Delete excluded entries too, except those that a rule protects (`--filter 'P PATTERN'`)
    ///
    /// Rules of --exclude and --include, and rules of --filter without `P`, `R`, `r`, then only select the entries to
    /// copy. --max-delete and the guards of --force-delete count these deletions too.
    #[arg(long, help_heading = "Deletion")]
    pub(crate) delete_excluded: bool,
    /// Delete entries that SRC lacks, after the copy (default; all of rsync's --delete-* options are accepted)
    #[arg(long, help_heading = "Deletion")]
    pub(crate) delete: bool,
}
