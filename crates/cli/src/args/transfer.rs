//! Options that `copy` and `sync` share.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{
    AcceptedArgs, CompressArgs, DeltaArgs, DirLinksArgs, FilterArgs, FullArgs, GivenArgs, IndexArgs,
    LimitArgs, LinkArgs, LinksArgs, LockedArgs, OlderArgs, OutputArgs, PagesArgs, PreserveArgs, StoreEndArgs,
    StoredArgs, TrustArgs,
};
use crate::values::{ManifestFormat, parse_window, written_file};

/// How written content is verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum VerifyMode {
    /// Check digests on arrival
    #[default]
    Wire,
    /// Also read files back from disk before they are renamed into place
    Disk,
}

/// Options that `copy` and `sync` share.
#[derive(Debug, Args)]
pub(crate) struct TransferArgs {
    /// Show the changes without making any
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// List the entries of SRC that the filters leave, in the format of rsync, and copy nothing; DST may be omitted
    ///
    /// Mode, size in bytes, time in the local time zone, and name. With --json haul prints the lines of `haul ls --json`.
    #[arg(long)]
    pub(crate) list_only: bool,

    /// Preserve all metadata (default; accepted for rsync compatibility, as are -r -l -p -t -g -o -D -H -A -X -S -h)
    #[arg(short = 'a', long, overrides_with_all = ["no_owner", "no_group", "no_perms", "no_times"])]
    pub(crate) archive: bool,
    #[command(flatten)]
    pub(crate) accepted: AcceptedArgs,

    /// Compare by content, not by size and time
    #[arg(short = 'c', long, conflicts_with = "size_only", help_heading = "Comparison")]
    pub(crate) checksum: bool,
    /// Compare by size only
    #[arg(long, help_heading = "Comparison")]
    pub(crate) size_only: bool,
    /// Copy files even if size and time are equal
    #[arg(short = 'I', long, conflicts_with_all = ["checksum", "size_only", "manifest"], help_heading = "Comparison")]
    pub(crate) ignore_times: bool,
    /// Skip files that exist at DST
    #[arg(long, help_heading = "Comparison")]
    pub(crate) ignore_existing: bool,
    /// Do not create files that DST lacks
    #[arg(long, help_heading = "Comparison")]
    pub(crate) existing: bool,
    /// Treat modification times that differ by at most N seconds as equal; -1 compares nanoseconds
    ///
    /// By default haul compares times with the precision that DST stores. If DST stores whole seconds, haul compares
    /// whole seconds. N is a whole number, with or without a unit (2, 2s).
    #[arg(long, value_name = "N", value_parser = parse_window, help_heading = "Comparison")]
    pub(crate) modify_window: Option<i64>,
    /// Skip files that are newer at DST
    #[arg(short = 'u', long, help_heading = "Comparison")]
    pub(crate) update: bool,

    /// Map owners and groups by name instead of by numeric ID
    #[arg(long, help_heading = "Metadata")]
    pub(crate) owner_by_name: bool,
    #[command(flatten)]
    pub(crate) preserve: PreserveArgs,

    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) links: LinksArgs,
    #[command(flatten)]
    pub(crate) dirlinks: DirLinksArgs,
    #[command(flatten)]
    pub(crate) index: IndexArgs,

    #[command(flatten)]
    pub(crate) delta: DeltaArgs,
    /// Keep the path of SRC below DST: `-R a/b/c DST` makes DST/a/b/c, and `-R a/./b/c DST` makes DST/b/c
    ///
    /// As with rsync -R. The directories above get the metadata that they have at SRC. haul drops a slash at the beginning
    /// and the part before the first `/./`. Filter patterns that begin with a slash begin at the kept path. `haul sync -R
    /// SRC DST` deletes only below the path of SRC. --files-from keeps its paths in any case.
    #[arg(short = 'R', long, conflicts_with = "index", help_heading = "Transfer")]
    pub(crate) relative: bool,

    /// Where to verify content
    #[arg(long, value_enum, value_name = "WHERE", default_value_t, help_heading = "Safety")]
    pub(crate) verify: VerifyMode,
    /// Do not read files that the file system clones (reflink)
    ///
    /// On one file system that shares blocks (xfs, btrfs), haul clones files of 256 KiB or more. It then reads each clone
    /// from the disk and hashes it, so that a block that cannot be read fails the file. With --no-verify, haul reads no
    /// clone, as `cp --reflink`. haul verifies content that it sends in any case.
    #[arg(long, conflicts_with = "manifest", help_heading = "Safety")]
    pub(crate) no_verify: bool,
    /// Skip fsync; a crash of the destination host may lose copied files, even after exit code 0
    ///
    /// haul still syncs files over 4 MiB and sparse files before it renames them into place. After a crash other files
    /// can be missing, empty or too short; rarely a file has the right size and time, but zeros in place of content.
    /// haul records on the destination host when it ran with --no-fsync. If that host restarted since, and no run
    /// without --no-fsync came before the restart, the next run copies all small files again that were changed in that
    /// time. haul keeps no such record for network file systems and SFTP servers: after a crash of these, run the
    /// command once with --checksum. The next run resumes the large files of an interrupted run with --no-fsync only if
    /// the host did not restart since, and reads them back first.
    #[arg(long, help_heading = "Safety")]
    pub(crate) no_fsync: bool,
    /// Do not read back the blocks of large files that an interrupted run left at DST
    ///
    /// By default haul reads these blocks from the disk and compares their digests before it renames the file into
    /// place; it sends a block again that differs. haul does this during the transfer, so it takes longer only if
    /// little is left to send. Large files are files over 4 MiB. Blocks of a run with --no-fsync are always read back.
    #[arg(long, help_heading = "Safety")]
    pub(crate) no_recheck: bool,
    /// Always write to a temporary file and rename, also on network file systems
    ///
    /// On local disks haul always does this. On NFS, SMB, CephFS, FUSE and similar file systems, where each request is
    /// a round trip, haul creates new small files under their final names; such a file is complete once its
    /// modification time is set, which haul does last.
    #[arg(long, help_heading = "Safety")]
    pub(crate) atomic: bool,
    #[command(flatten)]
    pub(crate) older: OlderArgs,
    #[command(flatten)]
    pub(crate) pages: PagesArgs,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
    #[command(flatten)]
    pub(crate) full: FullArgs,
    #[command(flatten)]
    pub(crate) locked: LockedArgs,
    /// Treat metadata errors as failures (exit 1)
    #[arg(long, help_heading = "Safety")]
    pub(crate) strict: bool,

    #[command(flatten)]
    pub(crate) given: GivenArgs,
    #[command(flatten)]
    pub(crate) link: LinkArgs,
    #[command(flatten)]
    pub(crate) store: StoreEndArgs,
    #[command(flatten)]
    pub(crate) stored: StoredArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) compress: CompressArgs,
    /// List each entry
    #[arg(short = 'v', long, overrides_with = "quiet", help_heading = "Output")]
    pub(crate) verbose: bool,
    /// Print a line for each change, with its reason, in the format of rsync
    ///
    /// The first letter is `<` (sent to another host), `>` (copied to this host), `c` (created), `h` (hard link) or `.`
    /// (only metadata is set), the second the kind of the entry (`f`, `d`, `L`, `D`, `S`). `+++++++++` is a new entry. Any
    /// other letter is an attribute that differed: `c` content, `s` size, `t` time (`T`: set to the time of the copy),
    /// `p` permissions, `o` owner, `g` group, `a` ACL, `x` extended attributes. `*deleting` is an entry that `sync`
    /// deletes. With --json, haul reports these reasons with each entry instead.
    #[arg(short = 'i', long, overrides_with = "quiet", help_heading = "Output")]
    pub(crate) itemize_changes: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Write the digest of each file to FILE for `haul verify --manifest`; implies --checksum
    ///
    /// FILE has one line for each file of SRC that DST has after the run, with its BLAKE3 digest, as `haul hash` and
    /// b3sum print it, sorted by name; paths are relative to DST. haul verified each of these files in this run: copied
    /// files on arrival, up-to-date files by comparing their content. haul replaces FILE when the run has ended. If the
    /// run is interrupted, an older FILE stays.
    #[arg(long, value_name = "FILE", value_parser = written_file(), conflicts_with_all = ["dry_run", "size_only"], help_heading = "Output")]
    pub(crate) manifest: Option<PathBuf>,
    /// The digests of the manifest: those of b3sum or of sha256sum
    ///
    /// For sha256, haul reads each file once more after the copy, at the end that is nearer, and compares its BLAKE3
    /// digest with the one that the copy verified.
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        default_value_t,
        requires = "manifest",
        help_heading = "Output"
    )]
    pub(crate) manifest_format: ManifestFormat,
    /// Sign the manifest with this ssh key (FILE.sig), if every file was copied; see `haul verify --allowed-signers`
    ///
    /// KEY is the file of a private key, or of a public key whose private key ssh-agent has. haul runs ssh-keygen(1).
    #[arg(long, value_name = "KEY", requires = "manifest", help_heading = "Output")]
    pub(crate) sign: Option<PathBuf>,
    /// Write the failed paths to FILE, in the format of --files-from (use -0 if names contain newlines)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) failed: Option<PathBuf>,
}
