//! Options that `copy` and `sync` share.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{
    AcceptedArgs, CompressArgs, DeltaArgs, FilterArgs, FullArgs, IndexArgs, LimitArgs, LinkArgs, OutputArgs,
    StoreEndArgs, StoredArgs, TrustArgs,
};
use crate::settings::number;

/// The widest window for times: 31 years.
const MOST_SECONDS: i64 = 1_000_000_000;

/// When content counts as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum VerifyMode {
    /// Its digest is checked when it arrives
    #[default]
    Wire,
    /// It is also read back from the disk before it gets its name
    Disk,
}

/// How a tree is copied.
#[derive(Debug, Args)]
pub(crate) struct TransferArgs {
    /// Say what would be done, change nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,

    /// Preserve all metadata: the default, accepted for rsync compatibility (as -r -l -p -t -g -o -D -H -A -X -S -h …)
    #[arg(short = 'a', long)]
    pub(crate) archive: bool,
    /// Other words of rsync for what is the default.
    #[command(flatten)]
    pub(crate) accepted: AcceptedArgs,

    /// Compare by content, not by size and time
    #[arg(short = 'c', long, conflicts_with = "size_only", help_heading = "What counts as the same")]
    pub(crate) checksum: bool,
    /// Compare by size alone
    #[arg(long, help_heading = "What counts as the same")]
    pub(crate) size_only: bool,
    /// Leave alone what exists at DST, whatever it is
    #[arg(long, help_heading = "What counts as the same")]
    pub(crate) ignore_existing: bool,
    /// Do not create files that DST lacks
    #[arg(long, alias = "ignore-non-existing", help_heading = "What counts as the same")]
    pub(crate) existing: bool,
    /// Treat modification times that differ by at most N seconds as equal; -1: only if equal to the nanosecond
    ///
    /// Default: haul compares times with the precision that DST stores. If DST stores whole seconds, haul compares
    /// whole seconds. N is a whole number.
    #[arg(
        long,
        value_name = "N",
        value_parser = |text: &str| number::<i64>(text, "seconds", -1, MOST_SECONDS),
        help_heading = "What counts as the same"
    )]
    pub(crate) modify_window: Option<i64>,
    /// Leave alone what is newer at DST
    #[arg(short = 'u', long, help_heading = "What counts as the same")]
    pub(crate) update: bool,

    /// What is looked at.
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// What is remembered of it.
    #[command(flatten)]
    pub(crate) index: IndexArgs,

    /// What is there in an older state.
    #[command(flatten)]
    pub(crate) delta: DeltaArgs,

    /// When content counts as written
    #[arg(long, value_enum, value_name = "WHERE", default_value_t, help_heading = "Safety")]
    pub(crate) verify: VerifyMode,
    /// Do not wait until data is on disk: a crash of the destination machine can lose files, also after exit code 0
    ///
    /// haul still syncs files of more than 4 MiB and files with holes before it gives them their names. After a crash
    /// other files can be missing, empty or too short; rarely one has the right size and time, but zeros in place of
    /// content. haul remembers on the destination machine when it ran with --no-fsync: if that machine was restarted
    /// since, and no run without --no-fsync came before the restart, the next run copies again all small files that
    /// were changed in that time. It remembers nothing of network file systems and of servers reached by SFTP: after a
    /// crash of these, run the command once with --checksum. If a run with --no-fsync is interrupted, the next run
    /// continues its large files only if the machine was not restarted since, and reads them back first.
    #[arg(long, overrides_with = "fsync", help_heading = "Safety")]
    pub(crate) no_fsync: bool,
    /// Do not read back the parts of large files that an interrupted run left at DST
    ///
    /// By default haul reads these parts from the disk and compares their digests before the file gets its name; a part
    /// that differs is sent again. haul does this during the transfer, so it takes longer only if little is left to
    /// send. Large files have more than 4 MiB. What a run with --no-fsync left is read back in any case.
    #[arg(long, help_heading = "Safety")]
    pub(crate) no_recheck: bool,
    /// Give every file its name only when it is complete, also on network file systems
    ///
    /// On local disks haul always does this. On NFS, SMB, CephFS, FUSE and similar file systems, where each request is
    /// a round trip, haul creates new small files under their final names; such a file is complete once its
    /// modification time is set, which haul does last.
    #[arg(long, help_heading = "Safety")]
    pub(crate) atomic: bool,
    /// Give files to the user and group of the same name at DST, not of the same number
    #[arg(long, overrides_with = "numeric-ids", help_heading = "Safety")]
    pub(crate) owner_by_name: bool,
    /// What the source is trusted with.
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
    /// A destination that is full.
    #[command(flatten)]
    pub(crate) full: FullArgs,
    /// Exit with 1 also if only metadata could not be set
    #[arg(long, help_heading = "Safety")]
    pub(crate) strict: bool,

    /// The remote end.
    #[command(flatten)]
    pub(crate) link: LinkArgs,
    /// The object store.
    #[command(flatten)]
    pub(crate) store: StoreEndArgs,
    /// What is written there.
    #[command(flatten)]
    pub(crate) stored: StoredArgs,
    /// How much it may take.
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// How content is packed on its way there.
    #[command(flatten)]
    pub(crate) compress: CompressArgs,
    /// Name each entry as it is done
    #[arg(short = 'v', long, conflicts_with = "quiet", help_heading = "What is shown")]
    pub(crate) verbose: bool,
    /// What is shown.
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Write the paths that failed to FILE, as --files-from takes them (with -0 if names hold newlines)
    #[arg(long, value_name = "FILE", help_heading = "What is shown")]
    pub(crate) failed: Option<PathBuf>,
}
