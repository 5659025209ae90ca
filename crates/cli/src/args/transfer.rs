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
    /// Take modification times that differ by at most N seconds for the same (-1: not even by a nanosecond)
    ///
    /// Without it, times are compared as precisely as DST keeps them: a disk that keeps seconds is compared by seconds.
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
    /// Do not wait until data is on the disk: a crash of the machine can lose what was copied
    ///
    /// A large file or one with holes is still synced before it gets its name, since it has its length before its
    /// content. After a crash other files can be missing, empty or too short, and rarely have zeros in them
    /// with their size and time right: then run once with --checksum. What such a run has left of large files counts
    /// only until the machine starts again, and is read back before.
    #[arg(long, overrides_with = "fsync", help_heading = "Safety")]
    pub(crate) no_fsync: bool,
    /// Do not read back what an interrupted run has left of large files before they get their names
    ///
    /// That is done beside the transfer, so it costs time only where little is left to be sent. What a run with
    /// --no-fsync has left is read back in any case.
    #[arg(long, help_heading = "Safety")]
    pub(crate) no_recheck: bool,
    /// Give every file its name only when it is complete, also on network file systems
    ///
    /// On a local disk that is always so. On NFS, SMB, CephFS, FUSE and the like, where each request is a round trip,
    /// a new small file is made under its own name; until its modification time is set, which comes last, it is not
    /// complete.
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

    /// The far end.
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
